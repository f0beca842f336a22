"""Protobuf: one message per record, described by a compiled descriptor set or a `.proto` file."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from google.protobuf.message import DecodeError, EncodeError, Message
from google.protobuf.message_factory import GetMessageClass

from ottla.spark.formats.doubts import settled
from ottla.spark.formats.format import BadSchema, Converted, with_errors
from ottla.spark.formats.proto_files import compile_proto, find_message
from ottla.spark.formats.proto_puts import message as message_part
from ottla.spark.formats.proto_reading import array_of
from ottla.spark.formats.proto_schema import has_required, type_of
from ottla.spark.formats.proto_tables import reader
from ottla.spark.formats.proto_writing import filler
from ottla.spark.formats.rows import rows_of
from ottla.spark.formats.spark_types import mapped
from ottla.spark.formats.writing import written

_UNWRITABLE = (ArithmeticError, EncodeError, LookupError, TypeError, ValueError)


class Protobuf:
    """Records of one message. Those of another often pass for it: Protobuf's bytes do not say what they are."""

    def __init__(self, descriptor_set: bytes, message: str | None = None) -> None:
        self._arguments = (descriptor_set, message)
        self._descriptor = find_message(descriptor_set, message)
        self.type = type_of(self._descriptor)
        if not pa.types.is_struct(self.type):
            raise BadSchema(f"{self._descriptor.full_name} is a part of messages, none of its own")
        self._new: Callable[[], Any] = GetMessageClass(self._descriptor)
        self.bare = mapped(self.type, _number)
        self._reader = reader(self._descriptor, self.type)
        # What cannot be read here, groups and the like, cannot be written either.
        self._part = None if self._reader is None else message_part(self._descriptor)
        self._fill = filler(self._descriptor)
        self._may_be_incomplete = has_required(self._descriptor)

    @classmethod
    def from_file(cls, path: Path, message: str | None = None, *, include: Sequence[Path] = ()) -> "Protobuf":
        """A descriptor set, or a `.proto` file, which needs the extra `proto`."""
        try:
            return cls(compile_proto(path, include) if path.suffix == ".proto" else path.read_bytes(), message)
        except OSError as fault:
            raise BadSchema(f"{path}: {fault.strerror or fault}") from None

    def __reduce__(self) -> tuple[type["Protobuf"], tuple[bytes, str | None]]:
        return Protobuf, self._arguments

    def decode(self, column: pa.Array) -> Converted:
        column = column.cast(pa.binary())
        read = self._reader.read(column) if self._reader is not None and len(column) else None
        if read is None:
            return self._decode(column)
        return settled(*read, lambda rows: self._decode(column.take(rows)))

    def _decode(self, column: pa.Array) -> Converted:
        """By Google's library, which has the last word on what a message is."""
        errors: dict[int, str] = {}
        messages = [self._parsed(row, record, errors) for row, record in enumerate(column.to_pylist())]
        try:
            found = array_of(messages, self._descriptor, self.type)
        except (ValueError, OverflowError):
            for row, message in enumerate(messages):
                try:
                    array_of([message], self._descriptor, self.type)
                except (ValueError, OverflowError) as fault:
                    errors[row], messages[row] = f"not of Spark's types: {fault}", None
            found = array_of(messages, self._descriptor, self.type)
        return with_errors(found, errors)

    def _parsed(self, row: int, record: bytes | None, errors: dict[int, str]) -> Message | None:
        if record is None:
            return None
        message: Message = self._new()
        try:
            message.ParseFromString(record)
        except DecodeError as fault:
            errors[row] = f"not a message {self._descriptor.full_name}: {fault}"
            return None
        if self._may_be_incomplete and not message.IsInitialized():
            missing = ", ".join(message.FindInitializationErrors())
            errors[row] = f"not a message {self._descriptor.full_name}: without {missing}"
            return None
        return message

    def encode(self, values: pa.Array) -> Converted:
        """Maps in the order of their keys, so that equal values are equal bytes."""
        plain = values.cast(self.type).cast(self.bare)
        if self._part is None:
            return self._encode(plain)
        return settled(*written(self._part, plain), lambda rows: self._encode(plain.take(rows)))

    def _encode(self, plain: pa.Array) -> Converted:
        """By Google's library, which has the last word on what a message takes."""
        errors: dict[int, str] = {}
        records: list[bytes | None] = []
        for row, value in enumerate(rows_of(plain)):
            message: Any = self._new()
            try:
                if value is not None:
                    self._fill(message, value)
                records.append(None if value is None else message.SerializeToString(deterministic=True))
            except _UNWRITABLE as fault:
                errors[row] = f"no message {self._descriptor.full_name}: {fault}"
                records.append(None)
        return with_errors(pa.array(records, pa.binary()), errors)


def _number(kind: pa.DataType) -> pa.DataType:
    return pa.int64() if pa.types.is_timestamp(kind) or pa.types.is_duration(kind) else kind
