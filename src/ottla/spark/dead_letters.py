"""Dead letters, as columns: records that could not be read become rows for another topic, and rows for their own again.

A dead letter has the key, the value and the headers of its record, and its story in further headers: the words of
`ottla.base.dead_letters`, their values as text. A record has one story, that of its last failure.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ottla.base import dead_letters as words
from ottla.spark.arrow.schema import HEADERS_TYPE, TIMESTAMP_TYPE

STORY = pa.struct(
    [
        ("error", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", TIMESTAMP_TYPE),
        ("pipeline", pa.string()),
        ("batch", pa.string()),
    ]
)
_HEADERS = (words.ERROR, words.TOPIC, words.PARTITION, words.OFFSET, words.TIMESTAMP, words.PIPELINE, words.BATCH)
"""In the order of the story's fields."""

ROW = pa.schema([("topic", pa.string()), ("key", pa.binary()), ("value", pa.binary()), ("headers", HEADERS_TYPE)])
"""What both ways end in: rows that the sink takes."""


@dataclass(frozen=True, slots=True)
class Teller:
    """Who writes dead letters, and where; `batch` is null where nothing is counted in batches."""

    topic: str
    pipeline: str
    batch: str | None = None


def dead_letters(rows: pa.RecordBatch, errors: pa.Array, teller: Teller) -> pa.RecordBatch:
    """The rows with an error, as dead letters. `rows` has the connector's columns; headers may be missing."""
    bad = pc.is_valid(errors)
    rows, errors = rows.filter(bad), errors.filter(bad)
    told = [
        errors,
        *(rows.column(name).cast(pa.string()) for name in ("topic", "partition", "offset")),
        _millis(rows.column("timestamp")),
        pa.repeat(pa.scalar(teller.pipeline), rows.num_rows),
        pa.repeat(pa.scalar(teller.batch, pa.string()), rows.num_rows),
    ]
    own = rows.column("headers") if "headers" in rows.schema.names else pa.nulls(rows.num_rows, HEADERS_TYPE)
    headers = _with_story(_Headers(own).without_story(), told)
    topic = pa.repeat(pa.scalar(teller.topic), rows.num_rows)
    return pa.RecordBatch.from_arrays([topic, rows.column("key"), rows.column("value"), headers], schema=ROW)


def stories(headers: pa.Array) -> pa.Array:
    """What the headers tell, a `STORY` per row; fields that are not told, or not readable, are null."""
    found = _Headers(headers)
    texts = [found.text(name) for name in _HEADERS]
    fields = [
        texts[0],
        texts[1],
        _number(texts[2], pa.int32()),
        _number(texts[3], pa.int64()),
        pc.multiply(_number(texts[4], pa.int64(), limit=_MILLIS_MAX), 1000).cast(TIMESTAMP_TYPE),
        texts[5],
        texts[6],
    ]
    return pa.StructArray.from_arrays(fields, fields=list(STORY))


def revived(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The records that the dead letters were, for the topics they came from; who does not say from where is left out.

    They may go to another partition than before, if the topic has got more, and they come behind what is there now.
    """
    headers = _Headers(rows.column("headers"))
    topic = headers.text(words.TOPIC)
    columns = [topic, rows.column("key"), rows.column("value"), headers.without_story().array()]
    return pa.RecordBatch.from_arrays(columns, schema=ROW).filter(pc.is_valid(topic))


class _Headers:
    """A column of headers as one long list of them, with the row of each."""

    def __init__(self, column: pa.Array) -> None:
        column = column.cast(HEADERS_TYPE)
        self.count = len(column)
        sizes = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
        pairs = column.flatten()
        self.rows: NDArray[np.int64] = np.repeat(np.arange(self.count), sizes)
        self.names, self.contents = pairs.field(0), pairs.field(1)

    def without_story(self) -> "_Headers":
        kept = pc.invert(pc.fill_null(pc.starts_with(self.names, words.PREFIX), False))
        return self._of(
            self.rows[kept.to_numpy(zero_copy_only=False)], self.names.filter(kept), self.contents.filter(kept)
        )

    def text(self, name: str) -> pa.Array:
        """By row, the last header of that name as text; null where there is none, or it is no text."""
        places = np.flatnonzero(pc.fill_null(pc.equal(self.names, name), False).to_numpy(zero_copy_only=False))
        found = np.full(self.count, -1, np.int64)
        found[self.rows[places]] = places
        return _as_text(self.contents.take(pa.array(found, mask=found < 0)))

    def array(self) -> pa.Array:
        """As a column; rows without headers have none, and no null."""
        bounds = np.searchsorted(self.rows, np.arange(self.count + 1)).astype(np.int32)
        pairs = pa.StructArray.from_arrays([self.names, self.contents], fields=list(HEADERS_TYPE.value_type))
        return pa.ListArray.from_arrays(pa.array(bounds), pairs).cast(HEADERS_TYPE)

    def _of(self, rows: NDArray[np.int64], names: pa.Array, contents: pa.Array) -> "_Headers":
        made = object.__new__(_Headers)
        made.count, made.rows, made.names, made.contents = self.count, rows, names, contents
        return made

    def merged(self, rows: NDArray[np.int64], names: pa.Array, contents: pa.Array) -> "_Headers":
        """With more headers, each behind those of its row."""
        all_rows = np.concatenate([self.rows, rows])
        order = pa.array(np.argsort(all_rows, kind="stable"))
        return self._of(
            np.sort(all_rows, kind="stable"),
            pa.concat_arrays([self.names, names]).take(order),
            pa.concat_arrays([self.contents, contents]).take(order),
        )


def _with_story(headers: _Headers, told: list[pa.Array]) -> pa.Array:
    """What is null is not told."""
    rows = np.tile(np.arange(headers.count), len(told))
    names = pa.concat_arrays([pa.repeat(pa.scalar(name), headers.count) for name in _HEADERS])
    contents = pa.concat_arrays([text.cast(pa.binary()) for text in told])
    is_told = contents.is_valid()
    more = rows[is_told.to_numpy(zero_copy_only=False)]
    return headers.merged(more, names.filter(is_told), contents.filter(is_told)).array()


_MILLIS_MAX = (2**63 - 1) // 1000


def _millis(times: pa.Array) -> pa.Array:
    """As text, rounded down."""
    micros = times.cast(TIMESTAMP_TYPE).cast(pa.int64())
    millis = np.floor_divide(micros.fill_null(0).to_numpy(zero_copy_only=False), 1000)
    return pa.array(millis, mask=micros.is_null().to_numpy(zero_copy_only=False)).cast(pa.string())


def _as_text(contents: pa.Array) -> pa.Array:
    try:
        return contents.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([None if raw is None else raw.decode("utf-8", "replace") for raw in contents.to_pylist()])


def _number(texts: pa.Array, kind: pa.DataType, limit: int | None = None) -> pa.Array:
    """Null for what is no number, or not of that size."""
    limit = limit or (1 << kind.bit_width - 1) - 1
    try:
        found = texts.cast(kind)
    except pa.ArrowInvalid:
        numbers = [int(text) if text is not None and _is_number(text) else None for text in texts.to_pylist()]
        found = pa.array([number if number is not None and abs(number) <= limit else None for number in numbers], kind)
    is_small = pc.and_(pc.less_equal(found, limit), pc.greater_equal(found, -limit))
    return pc.if_else(is_small, found, pa.scalar(None, kind))


def _is_number(text: str) -> bool:
    return len(text) <= 20 and text.isascii() and text.removeprefix("-").isdigit()
