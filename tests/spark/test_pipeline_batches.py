"""Whole pipelines, from a broker's topics to where their rows go."""

import json
import os
import threading
import time
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ottla.cli.main import run as command
from ottla.spark.pipelines.active import activate
from ottla.spark.pipelines.project import Mode
from ottla.testing import Broker
from tests.spark.pipeline_runs import Run, received, sent

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ORDERS = (
    "CREATE STREAM orders (id BIGINT NOT NULL, customer STRING, amount DOUBLE)\n"
    "FROM TOPIC orders WITH (format = 'json', timestamp = at);\n"
)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(
        {
            "orders": 2,
            "big": 1,
            "orders.dlq": 1,
            "archived": 1,
            "quick": 1,
            "upper": 1,
            "bought": 1,
            "people": 1,
            "named": 1,
            "baskets": 2,
            "baskets.dlq": 1,
            "bills": 1,
            "visits": 1,
            "visits.dlq": 1,
            "places": 1,
            "filed": 1,
        }
    ) as node:
        yield node


def orders(*ids: int) -> list[str]:
    return [f'{{"id": {id_}, "customer": "c{id_ % 2}", "amount": {id_ * 10}}}' for id_ in ids]


@pytest.mark.timeout(300)
def test_good_rows_and_dead_letters_arrive_once_over_several_runs(run: Run, broker: Broker) -> None:
    sql = ORDERS + (
        "CREATE FLOW big AS INSERT INTO TOPIC big WITH (key = id)\n"
        "SELECT id, amount FROM STREAM(orders) WHERE amount > 0;"
    )
    sent(broker, "orders", *orders(0, 1, 2), "no json")
    first = run(a_sql=sql).status()["flows"]["big"]
    assert (first["read_total"], first["written_total"], first["dead_total"]) == (4, 2, 1)
    assert (first["lag"], first["state"]) == (0, "finished")
    sent(broker, "orders", *orders(3), "still none")
    run()
    assert sorted(message.key() for message in received(broker, "big")) == [b"1", b"2", b"3"]
    letters = received(broker, "orders.dlq")
    assert sorted(message.value() for message in letters) == [b"no json", b"still none"]
    told = [dict(message.headers()) for message in letters]
    assert {story["ottla.dlq.batch"] for story in told} == {b"0", b"1"}
    assert {(story["ottla.dlq.topic"], story["ottla.dlq.pipeline"]) for story in told} == {(b"orders", b"shop")}


@pytest.mark.timeout(300)
def test_tables_of_a_lake_get_every_row_once_over_several_runs(run: Run, broker: Broker, tmp_path: Path) -> None:
    from deltalake import DeltaTable
    from pyiceberg.catalog import load_catalog

    sql = (ORDERS.replace("'json'", "'json', errors = 'drop'") + (
        "CREATE TABLE paid USING delta WITH (path = 'paid', partition.by = customer) AS\n"
        "SELECT id, customer, amount FROM STREAM(orders) WHERE amount > 0;\n"
        "CREATE TABLE all_orders USING iceberg WITH (table = 'shop.orders') AS SELECT id, amount FROM orders;\n"
    )).replace("TOPIC orders", "TOPIC archived")  # fmt: skip
    sent(broker, "archived", *orders(0, 1, 2), "no json")
    first = run(a_sql=sql).status()["flows"]
    assert (first["paid"]["written_total"], first["all_orders"]["written_total"]) == (2, 3)
    sent(broker, "archived", *orders(3, 4))
    run()
    paid = DeltaTable(tmp_path / "paid")
    assert sorted(paid.to_pyarrow_table(columns=["id"])["id"].to_pylist()) == [1, 2, 3, 4]
    assert paid.metadata().partition_columns == ["customer"]
    lake = tmp_path / "lake"
    catalog = load_catalog("ottla", type="sql", uri=f"sqlite:///{lake}/catalog.db", warehouse=lake.as_uri())
    assert sorted(catalog.load_table("shop.orders").scan().to_arrow()["id"].to_pylist()) == [0, 1, 2, 3, 4]


@pytest.mark.timeout(300)
def test_a_flow_of_the_mode_tail_hands_on_each_row_once_over_a_restart(run: Run, broker: Broker) -> None:
    sql = (
        "CREATE STREAM quick FROM TOPIC quick WITH (format = string);\n"
        "INSERT INTO TOPIC upper SELECT key, upper(value) AS value FROM STREAM(quick);"
    )
    for expected in ([b"A"], [b"A", b"B"]):
        sent(broker, "quick", expected[-1].decode().lower())
        stop = threading.Event()

        def stop_when_there(expected: list[bytes] = expected, stop: threading.Event = stop) -> None:
            until = time.monotonic() + 120
            while time.monotonic() < until and [one.value() for one in received(broker, "upper")] != expected:
                time.sleep(0.5)
            stop.set()

        watcher = threading.Thread(target=stop_when_there)
        watcher.start()
        flow = run(Mode.TAIL, stop, a_sql=sql).status()["flows"]["upper"]
        watcher.join(60)
        assert flow["mode"] == "tail" and flow["restarts"] == 0
    assert [one.value() for one in received(broker, "upper")] == [b"A", b"B"]


@pytest.mark.timeout(300)
def test_a_table_is_what_its_topic_says_when_a_batch_begins(run: Run, broker: Broker) -> None:
    sql = (
        "CREATE STREAM bought (who STRING) FROM TOPIC bought WITH (errors = drop);\n"
        "CREATE TABLE people (id STRING, name STRING) FROM TOPIC people WITH (key = id, errors = drop);\n"
        "INSERT INTO TOPIC named SELECT p.name AS value FROM STREAM(bought) b JOIN people p ON b.who = p.id;"
    )
    stop = threading.Event()
    seen: list[bytes] = []

    def change_a_name_after_the_first_batch() -> None:
        for name in ("anna", "anna b."):
            sent(broker, "people", f'{{"name": "{name}"}}')  # under the key 0
            sent(broker, "bought", '{"who": "0"}')
            before, until = len(seen), time.monotonic() + 120
            while time.monotonic() < until and len(seen) == before:
                seen[:] = [one.value() for one in received(broker, "named")]
                time.sleep(0.5)
        stop.set()

    watcher = threading.Thread(target=change_a_name_after_the_first_batch)
    watcher.start()
    run(Mode.MICRO, stop, a_sql=sql)
    watcher.join(60)
    assert seen == [b"anna", b"anna b."]


SHOP = """
syntax = "proto3";
package shop;
message Basket { int64 id = 1; string customer = 2; repeated Line lines = 3; map<string, int32> marks = 4; }
message Line { string what = 1; int32 count = 2; }
message Bill { int64 id = 1; int64 pieces = 2; repeated string what = 3; Line first = 4; map<string, int32> marks = 5; }
"""


@pytest.mark.timeout(300)
def test_protobuf_is_read_and_written_and_what_is_none_is_a_dead_letter(
    run: Run, broker: Broker, tmp_path: Path
) -> None:
    from google.protobuf.message_factory import GetMessageClass

    from ottla.spark.formats.proto_files import compile_proto, find_message

    (tmp_path / "shop.proto").write_text(SHOP)
    basket, bill = (
        GetMessageClass(find_message(compile_proto(tmp_path / "shop.proto"), name)) for name in ("Basket", "Bill")
    )
    sql = (
        "CREATE STREAM baskets FROM TOPIC baskets\n"
        "WITH (format = 'protobuf', schema.file = 'shop.proto', message = 'Basket');\n"
        "CREATE FLOW bills AS INSERT INTO TOPIC bills\n"
        "WITH (format = 'protobuf', schema.file = 'shop.proto', message = 'shop.Bill', key = id)\n"
        "SELECT id, aggregate(lines, 0L, (sum, line) -> sum + line.count) AS pieces,\n"
        "  transform(lines, line -> line.what) AS what, get(lines, 0) AS first, marks FROM STREAM(baskets);"
    )
    whole: list[Any] = [
        basket(id=number, customer="é", lines=[{"what": f"w{n}", "count": n} for n in range(number)], marks={"a": 1})
        for number in range(3)
    ]
    sent(broker, "baskets", *(each.SerializeToString() for each in whole), b"\x08", whole[2].SerializeToString()[:-1])
    flow = run(a_sql=sql).status()["flows"]["bills"]
    assert (flow["read_total"], flow["written_total"], flow["dead_total"]) == (5, 3, 2)
    bills: list[Any] = [bill.FromString(message.value()) for message in received(broker, "bills")]
    found = {one.id: (one.pieces, list(one.what), one.HasField("first"), dict(one.marks)) for one in bills}
    assert found == {
        0: (0, [], False, {"a": 1}),
        1: (0, ["w0"], True, {"a": 1}),
        2: (1, ["w0", "w1"], True, {"a": 1}),
    }
    for letter in received(broker, "baskets.dlq"):
        assert letter.value() in (b"\x08", whole[2].SerializeToString()[:-1])
        assert dict(letter.headers())["ottla.dlq.error"].startswith(b"not a message shop.Basket: ")


VISIT: dict[str, Any] = {
    "type": "record",
    "name": "Visit",
    "fields": [
        {"name": "who", "type": ["null", "string"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {
            "name": "stops",
            "type": {
                "type": "array",
                "items": {"type": "record", "name": "Stop", "fields": [{"name": "place", "type": "string"}]},
            },
        },
        {"name": "counts", "type": {"type": "map", "values": ["null", "int"]}},
    ],
}


@pytest.mark.timeout(300)
def test_nested_avro_is_read_and_written_and_what_is_none_is_a_dead_letter(
    run: Run, broker: Broker, tmp_path: Path
) -> None:
    from fastavro import parse_schema, schemaless_reader, schemaless_writer

    (tmp_path / "visit.avsc").write_text(json.dumps(VISIT))
    who, _, stops, counts = VISIT["fields"]
    fields = [who, {"name": "places", "type": {"type": "array", "items": stops["type"]}}, counts]
    written = {"type": "record", "name": "Places", "fields": fields}
    (tmp_path / "places.avsc").write_text(json.dumps(written))
    sql = (
        "CREATE STREAM visits FROM TOPIC visits WITH (format = avro, schema.file = 'visit.avsc', timestamp = at);\n"
        "CREATE FLOW places AS INSERT INTO TOPIC places WITH (format = avro, schema.file = 'places.avsc')\n"
        "SELECT who, array(stops, reverse(stops)) AS places, counts FROM STREAM(visits);"
    )
    rows = [
        {"who": name, "at": 1_700_000_000_000, "stops": [{"place": p} for p in at], "counts": {"a": 1, "b": None}}
        for name, at in ((None, "ab"), ("anna", ""), ("bert", "é"))
    ]
    records = []
    for row in rows:
        out = BytesIO()
        schemaless_writer(out, parse_schema(VISIT), row)
        records.append(out.getvalue())
    sent(broker, "visits", *records, records[0] + b"\x00")
    flow = run(a_sql=sql).status()["flows"]["places"]
    assert (flow["written_total"], flow["dead_total"]) == (3, 1)
    found: list[Any] = [
        schemaless_reader(BytesIO(message.value()), parse_schema(written), None)
        for message in received(broker, "places")
    ]
    assert sorted(found, key=repr) == sorted(
        ({"who": r["who"], "places": [r["stops"], r["stops"][::-1]], "counts": r["counts"]} for r in rows), key=repr
    )
    (letter,) = received(broker, "visits.dlq")
    assert dict(letter.headers())["ottla.dlq.error"].endswith(b"1 bytes are left over")


@pytest.mark.timeout(300)
def test_files_hold_every_row_once_over_several_runs(
    run: Run, broker: Broker, spark: "SparkSession", tmp_path: Path
) -> None:
    sql = (ORDERS.replace("'json'", "'json', errors = 'drop'") + "".join(
        f"CREATE TABLE in_{kind} USING {kind} WITH (path = 'files/{kind}') AS\n"
        "SELECT id, customer, amount FROM STREAM(orders);\n"
        for kind in ("parquet", "json", "csv")
    )).replace("TOPIC orders", "TOPIC filed")  # fmt: skip
    sent(broker, "filed", *orders(0, 1, 2), "no json")
    run(a_sql=sql)
    sent(broker, "filed", '{"id": 3, "customer": "a, \\"b\\"\\nc"}')
    run()
    expected = [(id_, f"c{id_ % 2}", id_ * 10.0) for id_ in range(3)]
    for kind in ("parquet", "json", "csv"):
        reader = spark.read.schema("id bigint, customer string, amount double").option("multiLine", kind == "csv")
        rows = reader.option("escape", "\\").format(kind).load(str(tmp_path / "files" / kind)).orderBy("id")
        assert [tuple(row) for row in rows.collect()] == [*expected, (3, 'a, "b"\nc', None)]


@pytest.mark.timeout(300)
def test_the_project_that_init_writes_runs_as_it_is(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("ottla.spark.pipelines.pipeline.session", lambda *given, **more: spark.newSession())
    monkeypatch.setenv("PYTHONPATH", os.environ.get("PYTHONPATH", ""))  # which a run adds to
    shop = str(tmp_path / "shop")
    with Broker(["orders", "big-orders", "revenue", "orders.dlq"]) as node:
        assert command(["pipeline", "init", shop]) == 0
        sent(node, "orders", '{"id": 1, "customer": "anna", "amount": 120}', "no order")
        code = command(["pipeline", "run", shop, "--once", "-b", node.bootstrap, "--metrics", "127.0.0.1:0"])
        activate(spark)
        told = capsys.readouterr().out
        assert code == 0 and "metrics at http://127.0.0.1:" in told
        assert "big_orders finished: 1 rows written" in told and "revenue finished: 0 rows written" in told
        assert [one.value() for one in received(node, "big-orders")] == [b'{"id":1,"customer":"anna","amount":120.0}']
        assert [one.value() for one in received(node, "orders.dlq")] == [b"no order"]
        assert command(["pipeline", "status", shop, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["condition"] == "stopped"
