"""Fetched batches become rows: the same as the decoder in plain Python finds, whatever the batches look like."""

from datetime import UTC, datetime
from itertools import product

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.spark.arrow.decode import RecordDecoder
from ottla.spark.arrow.schema import COLUMNS, ROW, row_schema
from ottla.spark.arrow.visible import ALL_OFFSETS, Fetched, Window
from ottla.wire.batch import Codec, Record, encode_batch, new_records, read_header, with_log_append_time
from tests.unit.spark.arrow.fetches import NOW, Row, empty_batch, logs, rows_of

ALL = RecordDecoder(COLUMNS)


def decoded(records: bytes, window: Window = ALL_OFFSETS, decoder: RecordDecoder = ALL) -> list[Row]:
    found = decoder.decode(Fetched("orders", 3, records), window)
    for batch in found.batches:
        batch.validate(full=True)
        assert batch.schema == decoder.schema
    return [row for batch in found.batches for row in batch.to_pylist()]


@given(logs())
def test_rows_are_what_plain_python_finds(batches: list[bytes]) -> None:
    assert decoded(b"".join(batches)) == rows_of(batches)


@given(logs(), st.data())
def test_rows_outside_of_the_window_are_left_out(batches: list[bytes], data: st.DataObject) -> None:
    known = [row["offset"] for row in rows_of(batches)] or [5]
    places = st.sampled_from(known) | st.integers(max(known[0] - 3, 0), known[-1] + 3)
    start, end = data.draw(places), data.draw(places)
    window = Window(start, max(start, end))
    assert decoded(b"".join(batches), window) == rows_of(batches, window)


@given(logs(), st.sets(st.sampled_from(COLUMNS), min_size=1))
def test_columns_can_be_left_out(batches: list[bytes], columns: set[str]) -> None:
    rows = [{name: row[name] for name in row if name in columns} for row in rows_of(batches)]
    assert decoded(b"".join(batches), decoder=RecordDecoder(columns)) == rows


@given(logs(), st.data())
def test_a_last_batch_that_is_cut_off_is_ignored(batches: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(batches)
    cut = data.draw(st.integers(0, len(whole)))
    held, size = [], 0
    for batch in batches:
        size += len(batch)
        if size <= cut:
            held.append(batch)
    found = ALL.decode(Fetched("orders", 3, whole[:cut]), Window(7))
    assert [row for batch in found.batches for row in batch.to_pylist()] == rows_of(held, Window(7))
    assert found.next_offset == max([7, *(read_header(batch).next_offset for batch in held)])


def test_the_columns_are_those_of_the_kafka_connector() -> None:
    headers = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    assert (
        row_schema(reversed(COLUMNS))
        == ROW
        == pa.schema(
            [
                ("key", pa.binary()),
                ("value", pa.binary()),
                ("topic", pa.string()),
                ("partition", pa.int32()),
                ("offset", pa.int64()),
                ("timestamp", pa.timestamp("us", "UTC")),
                ("timestampType", pa.int32()),
                ("headers", headers),
            ]
        )
    )
    assert "headers" not in row_schema().names


def test_an_unknown_column_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="no column vaule; there are key, value"):
        row_schema(["key", "vaule"])


def test_batches_that_compaction_emptied_have_no_rows_but_move_the_position() -> None:
    kept = encode_batch([Record(12, NOW, b"k", b"v")], base_offset=10)
    fetched = Fetched("orders", 3, empty_batch(0, 9) + kept + empty_batch(13, 20))
    found = ALL.decode(fetched)
    assert (found.row_count, found.next_offset) == (1, 21)


def test_the_position_never_goes_past_the_windows_end() -> None:
    batches = encode_batch(new_records([(None, b"v")] * 10, NOW)) + encode_batch(
        [Record(10, NOW, None, b"w")], base_offset=10
    )
    found = ALL.decode(Fetched("orders", 3, batches), Window(3, 6))
    assert (found.row_count, found.next_offset) == (3, 6)


def test_a_fetch_without_a_whole_batch_stays_where_it_is() -> None:
    batch = encode_batch(new_records([(None, b"v")], NOW))
    for cut in (0, 5, len(batch) - 1):
        found = ALL.decode(Fetched("orders", 3, batch[:cut]), Window(4))
        assert (found.batches, found.next_offset) == ([], 4)


def test_the_time_of_appending_is_the_batchs_not_the_records() -> None:
    batch = with_log_append_time(encode_batch(new_records([(None, b"a"), (None, b"b")], NOW)), NOW + 1500)
    rows = decoded(batch)
    assert [(row["timestamp"], row["timestampType"]) for row in rows] == [
        (datetime.fromtimestamp((NOW + 1500) / 1000, UTC), 1)
    ] * 2


def test_a_time_beyond_what_spark_knows_becomes_the_farthest_it_knows() -> None:
    batch = encode_batch([Record(0, 2**62, None, b"v"), Record(1, -(2**62), None, b"v")])
    found = RecordDecoder(["timestamp"]).decode(Fetched("orders", 3, batch))
    micros = found.batches[0]["timestamp"].cast(pa.int64()).to_pylist()
    assert micros == [(2**63 - 1) // 1000 * 1000, -((2**63 - 1) // 1000 * 1000)]


def test_header_names_that_are_no_text_are_mended_as_javas_clients_do() -> None:
    batch = encode_batch([Record(0, NOW, None, None, (("naXXme", b"v"), ("é", None)))], codec=Codec.NONE)
    torn = batch.replace(b"XX", b"\xff\xfe")
    rows = decoded(torn, decoder=RecordDecoder(COLUMNS, check_crcs=False))
    assert rows[0]["headers"] == [{"key": "na��me", "value": b"v"}, {"key": "é", "value": None}]


@pytest.mark.parametrize(("first", "second"), list(product(Codec, Codec)))
def test_codecs_may_change_within_a_fetch(first: Codec, second: Codec) -> None:
    one = encode_batch(new_records([(b"k", b"v" * 50)] * 3, NOW), codec=first)
    two = encode_batch([Record(3, NOW, b"l", b"w")], base_offset=3, codec=second)
    assert decoded(one + two) == rows_of([one, two])


def test_very_large_fetches_become_several_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.spark.arrow.decode.CHUNK_BYTES_MAX", 1000)
    batches = [
        encode_batch([Record(base + i, NOW, b"k", b"v" * 100) for i in range(4)], base_offset=base, codec=Codec.ZSTD)
        for base in range(0, 40, 4)
    ]
    found = ALL.decode(Fetched("orders", 3, b"".join(batches)))
    assert len(found.batches) == 4
    assert [row for batch in found.batches for row in batch.to_pylist()] == rows_of(batches)


def test_one_decoder_serves_many_topics_and_partitions() -> None:
    batch = encode_batch(new_records([(None, b"v")], NOW))
    decoder = RecordDecoder(["topic", "partition"])
    for number in range(200):
        found = decoder.decode(Fetched(f"t{number}", number, batch))
        assert found.batches[0].to_pylist() == [{"topic": f"t{number}", "partition": number}]


def test_buffers_that_can_be_written_are_read_as_well() -> None:
    batch = encode_batch(new_records([(b"k", b"v")], NOW))
    assert decoded(bytearray(batch)) == decoded(memoryview(batch)) == rows_of([batch])  # type: ignore[arg-type]
