"""Dead letters keep what their record was, and tell why it could not be read and where it came from."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from ottla.base import dead_letters as words
from ottla.spark.arrow.schema import COLUMNS_BY_DEFAULT, ROW, row_schema
from ottla.spark.dead_letters import Teller, dead_letters, revived, stories

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TELLER = Teller("orders.dlq", "shop", "17")
PLAIN = {
    "key": b"k",
    "value": b"v",
    "topic": "orders",
    "partition": 1,
    "offset": 5,
    "timestamp": None,
    "timestampType": 0,
}

_blobs = st.none() | st.binary(max_size=10)
_names = st.sampled_from(["a", "trace", "ottla", words.ERROR, words.TOPIC, f"{words.PREFIX}new"]) | st.text(max_size=4)
_headers = st.none() | st.lists(st.fixed_dictionaries({"key": _names, "value": _blobs}), max_size=4)
_rows = st.lists(
    st.fixed_dictionaries(
        {
            "key": _blobs,
            "value": _blobs,
            "topic": st.sampled_from(["orders", "bills"]),
            "partition": st.integers(0, 2**31 - 1),
            "offset": st.integers(0, 2**63 - 1),
            "timestamp": st.integers(-1, 2**40).map(lambda ms: EPOCH + timedelta(milliseconds=ms)),
            "timestampType": st.just(0),
            "headers": _headers,
        }
    ),
    max_size=8,
)
_errors = st.none() | st.text(min_size=1, max_size=6)


def batch(rows: list[dict[str, Any]], schema: pa.Schema = ROW) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{name: row[name] for name in schema.names} for row in rows], schema=schema)


def own_headers(row: dict[str, Any]) -> list[dict[str, Any]]:
    return [header for header in row["headers"] or [] if not header["key"].startswith(words.PREFIX)]


@given(_rows, st.data())
def test_rows_with_an_error_become_dead_letters(rows: list[dict[str, Any]], data: st.DataObject) -> None:
    errors = [data.draw(_errors) for _ in rows]
    found = dead_letters(batch(rows), pa.array(errors, pa.string()), TELLER)
    found.validate(full=True)
    bad = [(row, error) for row, error in zip(rows, errors, strict=True) if error is not None]
    assert [(letter["topic"], letter["key"], letter["value"]) for letter in found.to_pylist()] == [
        ("orders.dlq", row["key"], row["value"]) for row, _ in bad
    ]
    for letter, (row, error) in zip(found.to_pylist(), bad, strict=True):
        count = len(own_headers(row))
        assert letter["headers"][:count] == own_headers(row)
        assert {header["key"]: header["value"].decode() for header in letter["headers"][count:]} == {
            words.ERROR: error,
            words.TOPIC: row["topic"],
            words.PARTITION: str(row["partition"]),
            words.OFFSET: str(row["offset"]),
            words.TIMESTAMP: str((row["timestamp"] - EPOCH) // timedelta(milliseconds=1)),
            words.PIPELINE: "shop",
            words.BATCH: "17",
        }


@given(_rows)
def test_the_story_is_read_back(rows: list[dict[str, Any]]) -> None:
    letters = dead_letters(batch(rows), pa.array(["why"] * len(rows), pa.string()), TELLER)
    assert stories(letters.column("headers")).to_pylist() == [
        {name: row[name] for name in ("topic", "partition", "offset", "timestamp")}
        | {"error": "why", "pipeline": "shop", "batch": "17"}
        for row in rows
    ]


@given(_rows)
def test_dead_letters_become_the_records_that_they_were(rows: list[dict[str, Any]]) -> None:
    letters = dead_letters(batch(rows), pa.array(["why"] * len(rows), pa.string()), TELLER)
    again = revived(letters)
    again.validate(full=True)
    assert again.to_pylist() == [
        {"topic": row["topic"], "key": row["key"], "value": row["value"], "headers": own_headers(row)} for row in rows
    ]


@given(_rows, st.data())
def test_slices_count_as_what_they_show(rows: list[dict[str, Any]], data: st.DataObject) -> None:
    first = data.draw(st.integers(0, len(rows)))
    letters = dead_letters(batch(rows), pa.array(["why"] * len(rows), pa.string()), TELLER)
    assert revived(letters.slice(first)).to_pylist() == revived(letters).to_pylist()[first:]
    assert (
        stories(letters.column("headers").slice(first)).to_pylist()
        == stories(letters.column("headers")).to_pylist()[first:]
    )


def test_a_record_that_fails_again_has_one_story() -> None:
    row = {
        "key": b"k",
        "value": b"v",
        "topic": "orders",
        "partition": 1,
        "offset": 5,
        "timestamp": EPOCH,
        "timestampType": 0,
    }
    first = dead_letters(batch([row | {"headers": None}]), pa.array(["first"]), TELLER)
    (letter,) = first.to_pylist()
    read = batch([row | {"topic": "orders.dlq", "offset": 0, "headers": letter["headers"]}])
    second = dead_letters(read, pa.array(["second"]), Teller("orders.dlq.dlq", "mending"))
    (story,) = stories(second.column("headers")).to_pylist()
    assert (story["error"], story["topic"], story["pipeline"], story["batch"]) == (
        "second",
        "orders.dlq",
        "mending",
        None,
    )
    assert len(second.to_pylist()[0]["headers"]) == 6


def test_rows_without_the_column_of_headers_can_die_as_well() -> None:
    schema = row_schema(COLUMNS_BY_DEFAULT)
    row = {
        "key": None,
        "value": b"v",
        "topic": "orders",
        "partition": 1,
        "offset": 5,
        "timestamp": None,
        "timestampType": 0,
    }
    (letter,) = dead_letters(batch([row], schema), pa.array(["why"]), TELLER).to_pylist()
    assert words.TIMESTAMP not in [header["key"] for header in letter["headers"]]


def test_what_is_no_dead_letter_is_not_revived_and_has_no_story() -> None:
    headers: list[list[dict[str, Any]] | None] = [
        None,
        [{"key": words.TOPIC, "value": None}],
        [{"key": words.TOPIC, "value": b"\xff"}, {"key": words.OFFSET, "value": b"many"}],
        [{"key": words.PARTITION, "value": b"99999999999"}, {"key": words.TIMESTAMP, "value": b"9223372036854775807"}],
    ]
    rows = pa.record_batch(
        {
            "key": pa.nulls(4, pa.binary()),
            "value": pa.nulls(4, pa.binary()),
            "headers": pa.array(headers, ROW.field("headers").type),
        }
    )
    told = stories(rows.column("headers")).to_pylist()
    nothing = dict.fromkeys(told[0])
    assert told == [nothing, nothing, nothing | {"topic": "�"}, nothing]
    assert [row["topic"] for row in revived(rows).to_pylist()] == ["�"]
