"""Records into columns and back, on rows of a topic that were never in one."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ottla.spark.pipelines.decoding import Decoded, dead_rows, latest
from ottla.spark.pipelines.decoding import decode as decode_in
from ottla.spark.pipelines.definitions import Faulty, Flow, Place, Source, SqlText
from ottla.spark.pipelines.encoding import encoded as encoded_in
from ottla.spark.pipelines.sinks import console_writer, jdbc_writer
from ottla.spark.pipelines.topics import ROW

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HERE = Place("a.sql", 1, 1)
NOON = datetime(2026, 11, 19, 12, tzinfo=UTC)


def topic(spark: "SparkSession", *records: tuple[bytes | None, bytes | None]) -> "DataFrame":
    rows = [(key, value, "t", 0, offset, NOON, 0, [("own", b"h")]) for offset, (key, value) in enumerate(records)]
    return spark.createDataFrame(rows, ROW)


def source(columns: str | None, **options: str) -> Source:
    text = None if columns is None else SqlText(columns, HERE)
    return Source("s", HERE, "t", {name.replace("_", "."): value for name, value in options.items()}, text)


def decode(rows: "DataFrame", asked: Source, directory: Path = Path("/nowhere")) -> Decoded:
    return decode_in(rows, asked, directory)


def encoded(rows: "DataFrame", flow: Flow, options: dict[str, str], directory: Path = Path("/nowhere")) -> "DataFrame":
    return encoded_in(rows, flow, options, directory)


def values(frame: "DataFrame") -> list[tuple[Any, ...]]:
    return [tuple(row) for row in frame.collect()]


def test_json_becomes_columns_and_what_is_none_is_told_apart(spark: "SparkSession") -> None:
    rows = topic(
        spark,
        (None, b'{"id": 1, "name": "anna"}'),
        (None, b'{"id": "x"}'),
        (None, b"no json"),
        (None, b'{"name": "nobody"}'),
        (None, b""),
        (None, b"\xff\xfe"),
        (None, b'{"id": 2, "more": true}'),
    )
    found = decode(rows, source("id bigint NOT NULL, name string", format="json"))
    assert values(found.good) == [(1, "anna"), (2, None)]
    assert found.bad is not None
    errors = {row["offset"]: row["error"] for row in found.bad.collect()}
    assert set(errors) == {1, 2, 3, 4, 5} and errors[3] == "id is missing"
    assert "id" in errors[1] and "no JSON" in errors[2] and "UTF-8" in errors[5]


def test_a_record_without_value_is_a_row_without_values(spark: "SparkSession") -> None:
    found = decode(topic(spark, (b"7", None)), source("id int, name string", format="json", key="id"))
    assert values(found.good) == [(7, None)] and found.bad is not None and found.bad.count() == 0


def test_the_key_is_a_column_of_its_type_or_a_text(spark: "SparkSession") -> None:
    rows = topic(spark, (b"5", b'{"name": "a"}'), (b"x", b'{"name": "b"}'))
    found = decode(rows, source("id int, name string", format="json", key="id"))
    assert values(found.good) == [(5, "a")] and found.bad is not None
    assert [row["error"] for row in found.bad.collect()] == ["the key is no int"]
    added = decode(rows, source("name string", format="json", key="who")).good
    assert added.columns == ["name", "who"] and values(added) == [("a", "5"), ("b", "x")]


def test_time_and_place_of_a_record_can_be_asked_for(spark: "SparkSession") -> None:
    options = {"format": "json", "timestamp": "at", "metadata": "partition, offset"}
    found = decode(topic(spark, (None, b'{"id": 1}')), source("id int", **options)).good
    assert found.columns == ["id", "partition", "offset", "at"]
    [(_, partition, offset, at)] = values(found)
    assert (partition, offset, at) == (0, 0, NOON.replace(tzinfo=None))


def test_raw_rows_are_the_connectors(spark: "SparkSession") -> None:
    found = decode(topic(spark, (b"k", b"v")), source(None))
    assert found.bad is None
    assert found.good.columns == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
    assert values(decode(topic(spark, (b"k", b"v")), source(None, format="string")).good.select("key", "value")) == [
        ("k", "v")
    ]


@pytest.mark.parametrize("errors", ["drop", "fail"])
def test_bad_records_may_be_dropped_or_end_the_query(spark: "SparkSession", errors: str) -> None:
    from pyspark.errors import PySparkException

    rows = topic(spark, (None, b"no json"), (None, b'{"id": 1}'))
    found = decode(rows, source("id int", format="json", errors=errors))
    assert found.bad is None
    if errors == "drop":
        assert values(found.good) == [(1,)]
    else:
        with pytest.raises(PySparkException, match="t, partition 0, offset 0: no JSON"):
            found.good.collect()


def test_a_dead_letter_is_the_record_as_it_was_and_its_story(spark: "SparkSession") -> None:
    asked = source("id int", format="json")
    found = decode(topic(spark, (b"k", b"no json")), asked)
    assert found.bad is not None
    [letter] = dead_rows(found.bad, asked, "shop").collect()
    assert (letter["topic"], letter["key"], letter["value"]) == ("t.dlq", b"k", b"no json")
    assert [(header["key"], bytes(header["value"]).decode()) for header in letter["headers"]] == [
        ("own", "h"),
        ("ottla.dlq.error", "no JSON object: it starts with 'no json'"),
        ("ottla.dlq.topic", "t"),
        ("ottla.dlq.partition", "0"),
        ("ottla.dlq.offset", "0"),
        ("ottla.dlq.timestamp", str(int(NOON.timestamp() * 1000))),
        ("ottla.dlq.pipeline", "shop"),
    ]


def test_a_table_is_the_last_value_of_each_key(spark: "SparkSession") -> None:
    rows = topic(spark, (b"a", b"1"), (b"b", b"1"), (b"a", b"2"), (b"b", None), (None, b"3"))
    assert {(row["key"], row["value"]) for row in latest(rows).collect()} == {(b"a", b"2")}


def flow(**options: str) -> tuple[Flow, dict[str, str]]:
    return Flow("f", HERE, "topic:out", SqlText("", HERE)), {"topic": "out", **options}


def test_rows_become_json_records_with_a_key(spark: "SparkSession") -> None:
    rows = spark.createDataFrame([(1, "anna", NOON), (2, None, NOON)], "id int, `the name` string, at timestamp")
    [one, two] = encoded(rows, *flow(key="id")).collect()
    assert (one["topic"], one["key"]) == ("out", b"1")
    assert bytes(one["value"]) == b'{"id":1,"the name":"anna","at":"2026-11-19T12:00:00.000Z"}'
    assert bytes(two["value"]) == b'{"id":2,"at":"2026-11-19T12:00:00.000Z"}'


def test_rows_that_look_like_records_go_out_as_they_are(spark: "SparkSession") -> None:
    rows = spark.createDataFrame([(b"k", "text", 3)], "key binary, value string, partition int")
    [row] = encoded(rows, *flow()).collect()
    assert (row["topic"], row["key"], row["value"], row["partition"]) == ("out", b"k", b"text", 3)


@pytest.mark.parametrize(
    ("columns", "options", "complaint"),
    [
        ("value int", {}, "column value has to be binary or string, not int"),
        ("id int", {"format": "string"}, "string records need a column `value`; the query has id"),
        ("value string, id int", {"format": "raw"}, "raw records have no column id"),
        ("value string, idd int", {"key": "id"}, "no column id to be the key; did you mean idd"),
    ],
)
def test_rows_that_cannot_be_records_are_refused(
    spark: "SparkSession", columns: str, options: dict[str, str], complaint: str
) -> None:
    with pytest.raises(Faulty, match=complaint):
        encoded(spark.createDataFrame([], columns), *flow(**options))


AVRO = """{"type": "record", "name": "Order", "fields": [
    {"name": "id", "type": "long"}, {"name": "name", "type": ["null", "string"], "default": null}]}"""


def test_avro_goes_out_and_comes_in_and_what_is_none_is_told_apart(spark: "SparkSession") -> None:
    rows = spark.createDataFrame([(1, "anna"), (2, None)], "id int, name string")
    out = encoded(rows, *flow(format="avro", schema=AVRO, key="id")).collect()
    back = topic(spark, *((bytes(row["key"]), bytes(row["value"])) for row in out), (b"3", b"\x02"))
    found = decode(back, source(None, format="avro", schema=AVRO))
    assert found.good.columns == ["id", "name"] and values(found.good) == [(1, "anna"), (2, None)]
    assert found.bad is not None and [row["offset"] for row in found.bad.collect()] == [2]


def test_a_schema_that_the_query_does_not_fill_is_refused(spark: "SparkSession", tmp_path: Path) -> None:
    rows = spark.createDataFrame([], "id int, nam string")
    with pytest.raises(Faulty, match="the schema has name, and the query does not; did you mean nam"):
        encoded(rows, *flow(format="avro", schema=AVRO))
    with pytest.raises(Faulty, match=r"no\.avsc"):
        encoded(rows, *flow(format="avro", **{"schema.file": "no.avsc"}), tmp_path)
    with pytest.raises(Faulty, match="needs a schema"):
        decode(topic(spark), source(None, format="protobuf"))


def test_no_sequence_is_lost_between_what_goes_out_and_what_comes_in(spark: "SparkSession") -> None:
    given: Sequence[tuple[int, str]] = [(1, 'a "quoted" name'), (2, "ünïcode\n")]
    out = encoded(spark.createDataFrame(given, "id int, name string"), *flow(key="id")).collect()
    back = topic(spark, *((bytes(row["key"]), bytes(row["value"])) for row in out))
    assert values(decode(back, source("id int, name string", format="json", key="id")).good) == list(given)


# Writers of single batches


def test_a_database_gets_the_rows_of_a_batch(spark: "SparkSession", tmp_path: Path) -> None:
    options = {
        "url": f"jdbc:derby:{tmp_path}/db;create=true",
        "driver": "org.apache.derby.iapi.jdbc.AutoloadedDriver",
        "dbtable": "orders",
    }
    jvm: Any = spark._jvm
    jvm.java.lang.System.setProperty("derby.stream.error.file", f"{tmp_path}/derby.log")  # else it is left where we are
    write = jdbc_writer(options)
    for batch in (0, 1):
        write(spark.createDataFrame([(batch, "anna")], "id int, name string"), batch)
    found = spark.read.format("jdbc").options(**options).load()
    assert sorted((row[0], row[1]) for row in found.collect()) == [(0, "anna"), (1, "anna")]


def test_the_console_shows_batches_that_have_rows(spark: "SparkSession", capsys: pytest.CaptureFixture[str]) -> None:
    write = console_writer("big")
    write(spark.createDataFrame([], "id int"), 0)
    write(spark.createDataFrame([(7,)], "id int"), 1)
    assert capsys.readouterr().out == "big, batch 1\n+---+\n|id |\n+---+\n|7  |\n+---+\n"
