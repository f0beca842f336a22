"""The bounds: measured with next to nothing to carry, and the tables that are made of them."""

from collections import Counter
from pathlib import Path

import pytest

from bench.bounds import measuring
from bench.bounds.__main__ import read
from bench.bounds.parts import OTHERS, THE_OTHER_END, kind_of, parts, shared_out
from bench.bounds.split import ABOUT, split_table, splits
from bench.bounds.table import BESIDE, beside, parts_table
from bench.race.moving import CHOSEN
from bench.race.plan import WORKLOADS

from .race_results import race_of_three

DOCS = Path(__file__).parents[3] / "docs"
_ROW = "1 kB, acks=all, 1 partition, librdkafka"


def test_the_bounds_can_be_measured(tmp_path: Path) -> None:
    found = measuring.receiving(tmp_path, 0.01) | measuring.sending(tmp_path, 0.01) | measuring.forcing(tmp_path, 0.05)
    found |= measuring.asking(tmp_path, 0.05) | measuring.opening(tmp_path, 10)
    assert all(value >= 0 for value in found.values())
    assert found["receive_mb_per_s"] > 10 and found["echo_1_16_per_s"] > 100
    assert list(tmp_path.iterdir()) == []


def test_a_bound_is_the_best_of_its_rounds() -> None:
    rounds = [{"fsyncs_per_s": 100.0, "open_us": 5.0}, {"fsyncs_per_s": 300.0, "open_us": 9.0}]
    assert measuring.best(rounds) == {"fsyncs_per_s": 300.0, "open_us": 5.0}


def test_the_race_is_preferred_and_what_nobody_measured_is_left_out() -> None:
    race = race_of_three()
    race.figures["produce", _ROW, "MB/s"] = {"ottla": [500.0]}
    alone = {"produce MB/s": {"median": 900.0}, "produce cpu s/GB": {"median": 0.5}}
    said = beside({"receive_mb_per_s": 1000.0, "receive_s_per_gb": 0.25}, race, alone)
    rows = [line.strip("| ").split(" | ") for line in said.splitlines()[2:]]
    assert [(row[2], row[6], row[7]) for row in rows] == [("MB/s", "50%", "race"), ("broker cpu s/GB", "50%", "bench")]
    assert len(beside({}, race, alone).splitlines()) == 2
    assert len(beside({"receive_mb_per_s": 1.0}, None, {}).splitlines()) == 2


def test_rows_are_named_as_the_race_names_them() -> None:
    raced = {way.name for way in CHOSEN}
    assert {one.row for one in BESIDE if one.workload == "produce"} <= raced
    assert {one.workload for one in BESIDE} <= {workload.name for workload in WORKLOADS}


def test_a_client_at_its_limit_is_named() -> None:
    race = race_of_three()
    race.figures["produce", _ROW, "MB/s"] = {"ottla": [500.0]}
    race.figures["produce", _ROW, "client cores"] = {"ottla": [0.97], "kafka": [0.98]}
    assert "client is at its limit" in beside({"receive_mb_per_s": 1000.0}, race, {})


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        ("bench/one_request.py turner.<locals>.turn", THE_OTHER_END),
        ("net/outbox.py Outbox.flush", "`send`"),
        ("net/inbox.py Inbox.receive", "`recv`"),
        ("net/inbox.py Inbox.next_frame", "frame, header and body into objects"),
        ("messages/produce.py ProduceRequest.decode", "frame, header and body into objects"),
        ("messages/produce.py _write_produce_response_v11", "objects into bytes"),
        ("api/produce.py ProduceApi.produce", "finding the partition, building the answer"),
        ("producers/table.py ProducerTable.check", "checks, producers, log, indexes, high watermark"),
        ("broker/router.py Router.answer", "connection, router, queue of answers"),
        ("somewhere/else.py f", OTHERS),
    ],
)
def test_every_function_has_its_kind_of_work(function: str, kind: str) -> None:
    assert kind_of(function) == kind


def test_the_clients_own_time_is_left_out() -> None:
    found = Counter({"bench/one_request.py turn": 50, "net/inbox.py Inbox.receive": 50})
    assert shared_out(found, 10.0) == {"`recv`": 5.0}


@pytest.mark.timeout(60)
def test_the_parts_of_a_real_request_are_known() -> None:
    """Functions are renamed; where this fails, `PLACES` has to learn the new names."""
    found = parts(8_000)
    for call in ("`send`", "`recv`"):
        assert sum(column.get(call, 0.0) for column in found.values()) > 0
    for column in found.values():
        assert column.get(OTHERS, 0.0) < 0.15 * sum(column.values())
    assert "**together**" in parts_table(found)


def test_a_nodes_time_is_divided() -> None:
    found = splits(0.01, 200)
    assert found.keys() == ABOUT.keys()
    assert all(min(split.values()) >= 0 for split in found.values())
    assert found["single"]["switches"] > found["pipelined"]["switches"]
    assert split_table(found).count("\n") == 1 + len(ABOUT)


def test_what_is_published_is_what_was_measured() -> None:
    bounds = read()
    assert bounds is not None
    page = (DOCS / "performance.md").read_text(encoding="utf-8")
    assert parts_table(bounds["parts"]) in page and split_table(bounds["split"]) in page
    # The figures beside the bounds are those of the last race, and may be newer than the page.
    for line in beside(bounds["bounds"], None).splitlines()[2:]:
        cells = line.split(" | ")
        assert any(cells[2:5] == other.split(" | ")[2:5] for other in page.splitlines()), line
