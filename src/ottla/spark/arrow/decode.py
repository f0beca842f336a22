"""Fetched record batches into Arrow: a fixed amount of Python per batch of the log, never per record."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ottla.base.limits import DECOMPRESSED_BYTES_MAX
from ottla.spark.arrow import record_kernels as kernels
from ottla.spark.arrow.schema import COLUMNS_BY_DEFAULT, HEADERS_TYPE, TIMESTAMP_TYPE, row_schema
from ottla.spark.arrow.visible import ALL_OFFSETS, BadBatch, Fetched, SeenBatch, Window, seen_batches
from ottla.wire.batch import batch_payload
from ottla.wire.batch_header import HEADER_BYTES, BatchHeader
from ottla.wire.compression import Codec
from ottla.wire.malformed import Malformed
from ottla.wire.records import RECORD_BYTES_MIN, split_records

CHUNK_BYTES_MAX = 64 * 1024 * 1024
"""Decompressed bytes of the log in one Arrow batch, give or take one batch of the log; Arrow's limit is 2 GiB."""


@dataclass(slots=True)
class Decoded:
    """The rows, and where to fetch on. `next_offset` is past everything that was seen, also of what has no rows."""

    batches: list[pa.RecordBatch]
    next_offset: int

    @property
    def row_count(self) -> int:
        return sum(batch.num_rows for batch in self.batches)


@dataclass(slots=True)
class _Piece:
    """The records of one batch of the log, decompressed: `content` from `at` to `to`."""

    header: BatchHeader
    content: memoryview
    at: int
    to: int


class RecordDecoder:
    """Makes rows of what was fetched. Keeps constant columns from call to call; one thread uses it at a time."""

    def __init__(
        self,
        columns: Iterable[str] = COLUMNS_BY_DEFAULT,
        *,
        check_crcs: bool = True,
        max_decompressed_bytes: int = DECOMPRESSED_BYTES_MAX,
    ) -> None:
        self.schema = row_schema(columns)
        self._check_crcs = check_crcs
        self._max_decompressed_bytes = max_decompressed_bytes
        self._constants: dict[tuple[str, str | int], pa.Array] = {}

    def decode(self, fetched: Fetched, window: Window = ALL_OFFSETS) -> Decoded:
        """The rows of `fetched` in the window of offsets.

        Raises `BadBatch` for a batch that cannot be read, `Malformed` for bytes that are none. `next_offset` stays at
        the window's start when there was not one whole batch: then the fetch has to be larger.
        """
        decoded = Decoded([], window.start)
        pieces: list[_Piece] = []
        size = 0
        for seen in seen_batches(fetched, window, check_crcs=self._check_crcs):
            decoded.next_offset = min(max(decoded.next_offset, seen.header.next_offset), window.end)
            if seen.is_visible:
                pieces.append(self._opened(fetched, seen))
                size += pieces[-1].to - pieces[-1].at
            if size >= CHUNK_BYTES_MAX:
                decoded.batches += self._rows(fetched, pieces, window)
                pieces, size = [], 0
        decoded.batches += self._rows(fetched, pieces, window)
        return decoded

    def _opened(self, fetched: Fetched, seen: SeenBatch) -> _Piece:
        header, content = seen.header, memoryview(fetched.records)
        at, to = seen.at + HEADER_BYTES, seen.at + header.size
        try:
            if header.codec != Codec.NONE:
                content = memoryview(batch_payload(content[seen.at :], header, self._max_decompressed_bytes))
                at, to = 0, len(content)
            if not 0 <= header.record_count <= (to - at) // RECORD_BYTES_MIN:
                raise Malformed(f"a count of {header.record_count} records in {to - at} bytes")
        except Malformed as fault:
            raise BadBatch(fetched.where, header.base_offset, str(fault)) from None
        return _Piece(header, content, at, to)

    def _rows(self, fetched: Fetched, pieces: list[_Piece], window: Window) -> Iterator[pa.RecordBatch]:
        if not pieces:
            return
        rows = _Rows(pieces)
        bad = rows.parse(window)
        if bad is not None:
            raise BadBatch(fetched.where, bad.header.base_offset, _why_malformed(bad))
        if rows.count:
            columns = [self._column(name, rows, fetched) for name in self.schema.names]
            yield pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _column(self, name: str, rows: "_Rows", fetched: Fetched) -> pa.Array:
        match name:
            case "key":
                return rows.keys()
            case "value":
                return rows.values()
            case "topic":
                return self._constant(name, fetched.topic, pa.string(), rows.count)
            case "partition":
                return self._constant(name, fetched.partition, pa.int32(), rows.count)
            case "offset":
                return _plain(pa.int64(), rows.offsets[: rows.count])
            case "timestamp":
                return _plain(TIMESTAMP_TYPE, rows.timestamps[: rows.count])
            case "timestampType":
                return _plain(pa.int32(), rows.kinds[: rows.count])
            case _:
                return rows.headers()

    def _constant(self, name: str, value: str | int, kind: pa.DataType, count: int) -> pa.Array:
        """A column that says the same in every row, made once and sliced from then on."""
        held = self._constants.get((name, value))
        if held is None or len(held) < count:
            if len(self._constants) >= _CONSTANTS_MAX:
                self._constants.clear()
            held = self._constants[name, value] = pa.repeat(pa.scalar(value, kind), max(count, _CONSTANT_ROWS))
        return held.slice(0, count)


_CONSTANTS_MAX = 64
_CONSTANT_ROWS = 16 * 1024


class _Rows:
    """The numbers of all rows of some pieces, and the columns that are made of them."""

    def __init__(self, pieces: list[_Piece]) -> None:
        self._pieces = pieces
        self._data, self._segments = _laid_out(pieces)
        room = int(self._segments[:, kernels.COUNT].sum())
        self.count = 0
        self.offsets, self.timestamps = np.empty(room, np.int64), np.empty(room, np.int64)
        self.kinds = np.empty(room, np.int32)
        self._places = (np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int64))
        self._bounds = (np.zeros(room + 1, np.int32), np.zeros(room + 1, np.int32), np.zeros(room + 1, np.int32))
        self._bits = (_bitmap(room), _bitmap(room), _bitmap(room))
        self._totals = np.zeros(kernels.TOTALS, np.int64)

    def parse(self, window: Window) -> _Piece | None:
        """The piece that is malformed, if there is one."""
        kernels.parse(
            self._data,
            self._segments,
            (window.start, window.end),
            (self.offsets, self.timestamps, self.kinds),
            self._places,
            self._bounds,
            self._bits,
            self._totals,
        )
        self.count = int(self._totals[kernels.ROWS])
        bad = int(self._totals[kernels.BAD_SEGMENT])
        return None if bad < 0 else self._pieces[bad]

    def keys(self) -> pa.Array:
        return self._gathered(0, kernels.KEY_BYTES, kernels.NULL_KEYS)

    def values(self) -> pa.Array:
        return self._gathered(1, kernels.VALUE_BYTES, kernels.NULL_VALUES)

    def _gathered(self, which: int, bytes_at: int, nulls_at: int) -> pa.Array:
        out = np.empty(int(self._totals[bytes_at]), np.uint8)
        bounds = self._bounds[which][: self.count + 1]
        kernels.gather(self._data, self._places[which][: self.count], bounds, out)
        nulls = int(self._totals[nulls_at])
        bits = pa.py_buffer(self._bits[which]) if nulls else None
        return pa.Array.from_buffers(
            pa.binary(), self.count, [bits, pa.py_buffer(bounds), pa.py_buffer(out)], null_count=nulls
        )

    def headers(self) -> pa.Array:
        """Null where a record has none, not empty: so it is in the connector."""
        totals = self._totals
        count, nulls = int(totals[kernels.HEADERS]), int(totals[kernels.NULL_HEADER_VALUES])
        bounds = (np.zeros(count + 1, np.int32), np.zeros(count + 1, np.int32))
        contents = (
            np.empty(int(totals[kernels.HEADER_KEY_BYTES]), np.uint8),
            np.empty(int(totals[kernels.HEADER_VALUE_BYTES]), np.uint8),
        )
        bits = _bitmap(count)
        if count:
            kernels.gather_headers(self._data, self._places[2][: self.count], bounds, contents, bits)
        keys = pa.Array.from_buffers(
            pa.binary(), count, [None, pa.py_buffer(bounds[0]), pa.py_buffer(contents[0])], null_count=0
        )
        values = pa.Array.from_buffers(
            pa.binary(),
            count,
            [pa.py_buffer(bits) if nulls else None, pa.py_buffer(bounds[1]), pa.py_buffer(contents[1])],
            null_count=nulls,
        )
        pairs = pa.StructArray.from_arrays([_text(keys), values], fields=list(HEADERS_TYPE.value_type))
        starts = pa.py_buffer(self._bounds[2][: self.count + 1])
        without = int(totals[kernels.WITHOUT_HEADERS])
        there = pa.py_buffer(self._bits[2]) if without else None
        return pa.Array.from_buffers(HEADERS_TYPE, self.count, [there, starts], null_count=without, children=[pairs])


def _laid_out(pieces: list[_Piece]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The bytes of all pieces in one array (what was fetched, uncopied, if nothing was compressed), and a table."""
    content = pieces[0].content
    is_shared = all(piece.content.obj is content.obj for piece in pieces)
    if not is_shared:
        content = memoryview(b"".join([piece.content[piece.at : piece.to] for piece in pieces]))
    segments = np.empty((len(pieces), 8), np.int64)
    position = 0
    for row, piece in enumerate(pieces):
        header = piece.header
        at = piece.at if is_shared else position
        position = at + piece.to - piece.at
        segments[row] = (
            at,
            position,
            header.base_offset,
            header.last_offset_delta,
            header.base_timestamp,
            header.max_timestamp,
            header.is_log_append_time,
            header.record_count,
        )
    # Read-only even where the source is not: another kind of array is another kernel to compile.
    return np.frombuffer(content.toreadonly(), np.uint8), segments


def _why_malformed(piece: _Piece) -> str:
    """The words of the decoder that takes its time; the kernels only know which batch it was."""
    header = piece.header
    try:
        for _ in split_records(
            bytes(piece.content[piece.at : piece.to]), header.record_count, header.last_offset_delta
        ):
            pass
    except Malformed as fault:
        return str(fault)
    return "a timestamp that does not fit into 64 bits"


def _text(keys: pa.Array) -> pa.Array:
    """As strings; what is not UTF-8 is replaced, as Java's clients do, since a header must not stop a pipeline."""
    try:
        return keys.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([key.decode("utf-8", "replace") for key in keys.to_pylist()], pa.string())


def _plain(kind: pa.DataType, numbers: NDArray[np.int64] | NDArray[np.int32]) -> pa.Array:
    return pa.Array.from_buffers(kind, len(numbers), [None, pa.py_buffer(numbers)], null_count=0)


def _bitmap(count: int) -> NDArray[np.uint8]:
    return np.zeros((count + 7) // 8, np.uint8)
