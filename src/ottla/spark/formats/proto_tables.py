"""Protobuf's messages into Arrow without a Python object for each: tables of fields for the kernel that reads them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from numpy.typing import NDArray

from ottla.spark.arrow.columns import blobs_of
from ottla.spark.formats import proto_kernels as kernels
from ottla.spark.formats.cells import Filled, Layout, Leaf, Record, Repeated, Shape, with_more_room
from ottla.spark.formats.proto_schema import has_micros, is_list, is_map

_DEPTH_MAX = 50
"""Google's reader gives up at 100."""
_KINDS = {
    FieldDescriptor.TYPE_DOUBLE: kernels.EIGHT,
    FieldDescriptor.TYPE_FLOAT: kernels.FOUR,
    FieldDescriptor.TYPE_INT64: kernels.LONG,
    FieldDescriptor.TYPE_UINT64: kernels.LONG,
    FieldDescriptor.TYPE_INT32: kernels.INT,
    FieldDescriptor.TYPE_FIXED64: kernels.EIGHT,
    FieldDescriptor.TYPE_FIXED32: kernels.FOUR,
    FieldDescriptor.TYPE_BOOL: kernels.FLAG,
    FieldDescriptor.TYPE_STRING: kernels.TEXT,
    FieldDescriptor.TYPE_MESSAGE: kernels.PART,
    FieldDescriptor.TYPE_BYTES: kernels.BYTES,
    FieldDescriptor.TYPE_UINT32: kernels.UNSIGNED,
    FieldDescriptor.TYPE_ENUM: kernels.ENUM,
    FieldDescriptor.TYPE_SFIXED32: kernels.FOUR,
    FieldDescriptor.TYPE_SFIXED64: kernels.EIGHT,
    FieldDescriptor.TYPE_SINT32: kernels.SIGNED_INT,
    FieldDescriptor.TYPE_SINT64: kernels.SIGNED_LONG,
}
_UNSIGNED = (FieldDescriptor.TYPE_UINT64, FieldDescriptor.TYPE_FIXED64)


@dataclass(frozen=True, slots=True)
class Reader:
    messages: NDArray[np.int64]
    fields: NDArray[np.int64]
    names: NDArray[np.int64]
    layout: Layout
    shape: Shape
    depth: int
    type: pa.DataType

    def read(self, column: pa.Array) -> tuple[pa.Array, NDArray[np.int64]] | None:
        """Values, null in the rows that are also given: those could not be read here.

        None when there is more than a column of Arrow can hold.
        """
        blobs = blobs_of(column)
        is_null = column.is_null().to_numpy(zero_copy_only=False).astype(np.uint8)
        is_bad = is_null.copy()
        cells = self.layout.cells(len(column))
        frames = np.zeros((self.depth, kernels.FRAME_COLUMNS), np.int64)
        plan = (self.messages, self.fields, self.names)
        while full := kernels.read(blobs.data, blobs.bounds, *plan, cells, is_bad, frames):
            cells = with_more_room(cells, full, int(blobs.bounds[-1]) - int(blobs.bounds[0]))
        try:
            found = Filled(cells, blobs.data).array(self.shape, self.type)
        except OverflowError:
            return None
        return found, np.flatnonzero(is_bad & ~is_null & 1)


def reader(descriptor: Descriptor, kind: pa.DataType) -> Reader | None:
    """None for messages with groups, message sets, or deep nesting."""
    plan = _Plan()
    if not _can_be_read(descriptor):
        return None
    shape = plan.message(descriptor, 0, plan.layout.column(0), 1)
    tables = (plan.messages, plan.fields, plan.names)
    shapes = ((-1, kernels.MESSAGE_COLUMNS), (-1, kernels.FIELD_COLUMNS), (-1,))
    messages, fields, names = (np.array(rows, np.int64).reshape(to) for rows, to in zip(tables, shapes, strict=True))
    return Reader(messages, fields, names, plan.layout, shape, plan.depth, kind)


def _can_be_read(message: Descriptor, depth: int = 1) -> bool:
    return (
        depth <= _DEPTH_MAX
        and not message.GetOptions().message_set_wire_format
        and all(
            part.type in _KINDS and (part.message_type is None or _can_be_read(part.message_type, depth + 1))
            for part in message.fields
        )
    )


@dataclass(slots=True)
class _Plan:
    layout: Layout = field(default_factory=Layout)
    messages: list[list[int]] = field(default_factory=list)
    fields: list[list[int]] = field(default_factory=list)
    names: list[int] = field(default_factory=list)
    depth: int = 0

    def message(self, descriptor: Descriptor, level: int, column: int, depth: int, *, always: bool = False) -> Shape:
        """Rows for a message whose column is there already, and all that is in it."""
        self.depth = max(self.depth, depth)
        known = sorted(descriptor.fields, key=lambda part: part.number)
        first, is_micros = len(self.fields), has_micros(descriptor)
        is_pair = bool(descriptor.GetOptions().map_entry)
        self.messages.append([first, len(known), column, int(is_micros), int(is_pair)])
        self.fields += [[0] * kernels.FIELD_COLUMNS for _ in known]
        oneofs = {one.full_name: self.layout.column(level) for one in descriptor.oneofs if len(one.fields) > 1}
        shapes = {}
        for row, part in enumerate(known, first):
            oneof = part.containing_oneof
            in_oneof = -1 if oneof is None else oneofs.get(oneof.full_name, -1)
            shapes[part.name] = self._field(part, row, level, depth, in_oneof)
        if is_micros:
            return Leaf(column, always=always)
        return Record(column, tuple(shapes[part.name] for part in descriptor.fields), always)

    def _field(self, part: FieldDescriptor, row: int, level: int, depth: int, oneof: int) -> Shape:
        repeated, inside = -1, level
        if part.is_repeated:
            repeated, inside = self.layout.column(level), self.layout.level()
        column = self.layout.column(inside)
        names, name_count = self._closed(part.enum_type)
        kind, is_required = _KINDS[part.type], int(part.is_required)
        message = len(self.messages) if part.message_type is not None else -1
        about = [part.number, kind, column, inside, repeated, message, oneof, names, name_count, is_required]
        self.fields[row][: len(about)] = about
        in_pair = bool(part.containing_type.GetOptions().map_entry)
        always = in_pair or bool(part.is_repeated) or not part.has_presence
        shape: Shape
        if part.message_type is None:
            shape = Leaf(column, _names(part.enum_type), always, "unsigned" if part.type in _UNSIGNED else "")
        else:
            shape = self.message(part.message_type, inside, column, depth + 1, always=always)
        if is_map(part):
            assert isinstance(shape, Record)
            return Repeated(repeated, inside, shape.fields, always=True)
        return Repeated(repeated, inside, (shape,), always=True) if is_list(part) else shape

    def _closed(self, enum: EnumDescriptor | None) -> tuple[int, int]:
        """Where the numbers are that an enum may be, and how many, if that is for it to say."""
        if enum is None or not enum.is_closed:
            return 0, 0
        self.names += list(enum.values_by_number)
        return len(self.names) - len(enum.values_by_number), len(enum.values_by_number)


def _names(enum: EnumDescriptor | None) -> Mapping[int, str] | None:
    return None if enum is None else {number: value.name for number, value in enum.values_by_number.items()}
