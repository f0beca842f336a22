"""The plan past one machine: its parts on figures that are easy to reckon with, and its page."""

from pathlib import Path
from xml.etree import ElementTree

import pytest

from bench.plan.breaks import breaks, least
from bench.plan.chart import Line, Panel, draw
from bench.plan.checks import shared_fsyncs_per_s
from bench.plan.costs import MEANINGS, Cost, Costs, read
from bench.plan.failover import Crash, course, partitions_until_it_breaks
from bench.plan.latency import HOP_SECONDS, Load, acks_all
from bench.plan.metadata import weigh
from bench.plan.publish import PAGE, PICTURE, filled, said
from bench.plan.rebalance import Group
from bench.plan.throughput import Flow, capacity
from bench.plan.world import Server, World

from .race_results import race_of_three

DOCS = Path(__file__).parents[3] / "docs"
ROUND = Costs({name: Cost(100.0 if unit == "µs" else 1.0, "made up") for name, (unit, _) in MEANINGS.items()})


def with_costs(**values: float) -> Costs:
    return Costs(dict(ROUND.items()) | {name: Cost(value, "made up") for name, value in values.items()})


def test_a_loop_does_one_thing_at_a_time_and_in_order() -> None:
    world = World()
    loop = Server(world)
    done: list[tuple[str, float]] = []
    world.at(1.0, lambda: loop.do(0.5, lambda: done.append(("second", world.now))))
    world.at(0.0, lambda: loop.do(1.25, lambda: done.append(("first", world.now))))
    world.run()
    assert done == [("first", 1.25), ("second", 1.75)]
    assert loop.busy_seconds == 1.75


def test_time_stops_where_it_is_told_to() -> None:
    world = World()
    happened: list[float] = []
    for delay in (1.0, 2.0, 3.0):
        world.at(delay, lambda: happened.append(world.now))
    world.run(2.0)
    assert happened == [1.0, 2.0]


def test_without_followers_a_cluster_takes_what_its_loops_take() -> None:
    costs = with_costs(produce_s_per_gb=0.5, consume_s_per_gb=0.5, pipelined_us=0, fetch_us=0, follower_batch_us=0)
    alone = Flow(factor=1, readers=0)
    assert capacity(costs, alone, 4, float("inf")).mb_per_s == pytest.approx(8_000)
    # Each further replica is sent once and received once more.
    assert capacity(costs, Flow(factor=3, readers=0), 4, float("inf")).mb_per_s == pytest.approx(1_600)
    assert capacity(costs, alone, 4, 1e9).bound == "network"


def test_an_acknowledgement_without_load_takes_the_hops_and_the_work() -> None:
    costs = with_costs(produce_s_per_gb=0, consume_s_per_gb=0, single_us=10, fetch_us=10, follower_batch_us=10)
    idle = Load(nodes=3, batches_per_s=1.0, readers=0)
    assert acks_all(costs, Load(nodes=3, factor=1, batches_per_s=1.0)).p50_ms == pytest.approx(
        (2 * HOP_SECONDS + 10e-6) * 1e3
    )
    # There, to the follower and back, and back: four hops; 10 + 5, 20 and 5 µs of work, and a little of waiting.
    found = acks_all(costs, idle)
    assert (4 * HOP_SECONDS + 40e-6) * 1e3 <= found.p50_ms <= (4 * HOP_SECONDS + 60e-6) * 1e3


def test_latency_grows_with_load_and_with_partitions_that_fetches_name() -> None:
    costs = with_costs(produce_s_per_gb=0.3, consume_s_per_gb=0.3, fetch_partition_us=2, follow_partition_us=1)
    quiet = acks_all(costs, Load(batches_per_s=50))
    busy = acks_all(costs, Load(batches_per_s=1_000))
    many = acks_all(costs, Load(batches_per_s=50, partitions_per_pair=1_000))
    assert quiet.p99_ms < busy.p99_ms
    assert quiet.used < busy.used <= 1
    assert many.p50_ms > quiet.p50_ms + 2


def test_a_fail_over_is_noticed_decided_committed_and_led_in_this_order() -> None:
    crash = Crash(nodes=4, partitions=4_000, clients=100)
    found = course(ROUND, crash)
    assert found.noticed == 8.0
    assert found.noticed < found.decided < found.committed < found.led <= found.last_client
    # 4,000 looked at and 3,000 decided, encoded and applied, at 100 µs each.
    assert found.controller_stall == pytest.approx(1.3)
    assert not found.breaks
    assert course(ROUND, Crash(nodes=4, partitions=4_000, clients=100, is_orderly=True)).noticed == 0


def test_a_decision_that_takes_longer_than_the_quorum_waits_breaks() -> None:
    most = partitions_until_it_breaks(ROUND, 4)
    assert not course(ROUND, Crash(4, int(most * 0.99))).breaks
    assert course(ROUND, Crash(4, int(most * 1.01))).breaks


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_comes_to_rest_after_each_event(protocol: str) -> None:
    group = Group(ROUND, protocol, 6)
    come, leaves, comes = group.all_come(), group.one_leaves(), group.one_comes()
    assert 0 < come.seconds < 30
    assert sorted(group.owners.of) == list(range(12))
    assert {len(member.owned) for member in group.members if member.is_alive} == {2}
    for step in (leaves, comes):
        assert 0 <= step.stood_still <= step.seconds < 20


def test_only_what_moves_stands_still_in_the_consumer_protocol() -> None:
    still = {}
    for protocol in ("classic", "consumer"):
        group = Group(ROUND, protocol, 20)
        group.all_come()
        still[protocol] = group.one_leaves().stood_still
    assert still["consumer"] < still["classic"] / 2


def test_producers_share_an_fsync() -> None:
    costs = with_costs(fsynced_per_s=100.0, single_us=10.0)
    assert shared_fsyncs_per_s(costs, 1) == pytest.approx(100, rel=0.02)
    assert 1_900 < shared_fsyncs_per_s(costs, 40) <= 4_000


def test_the_smallest_number_that_is_too_much_is_found() -> None:
    assert least(lambda count: count >= 777) == 777
    assert least(lambda count: count >= 1_234_567) == pytest.approx(1_234_567, rel=0.002)


def test_what_breaks_first_stands_first() -> None:
    counted = [one.reached for one in breaks(ROUND) if one.unit == "partitions"]
    assert counted == sorted(counted)
    assert len(counted) >= 7


def test_weights_grow_with_partitions_and_shrink_with_nodes() -> None:
    small, large, spread = weigh(ROUND, 1_000, 3), weigh(ROUND, 10_000, 3), weigh(ROUND, 10_000, 30)
    assert small.snapshot_mb < large.snapshot_mb == spread.snapshot_mb
    assert spread.open_s == pytest.approx(small.open_s)


def test_figures_of_the_race_are_preferred_and_say_where_they_are_from(tmp_path: Path) -> None:
    alone = tmp_path / "result.json"
    alone.write_text('{"figures": {"produce cpu s/GB": {"median": 0.5}, "idle memory MB": {"median": 60}}}')
    race = race_of_three()
    race.figures["produce", "1 kB, acks=all, 1 partition, librdkafka", "broker cpu s/GB"] = {"ottla": [0.2, 0.3, 0.4]}
    found = Costs({}).with_published(alone, race)
    assert (found["produce_s_per_gb"], found["idle_mb"]) == (0.3, 60)
    assert "race.json" in dict(found.items())["produce_s_per_gb"].source
    assert Costs.from_json(found.to_json()).items() == sorted(found.items())


def test_costs_that_are_higher_change_times_and_not_sizes() -> None:
    twice = ROUND.scaled(2)
    assert twice["decide_us"] == 200 and twice["restart_partition_ms"] == 2 and twice["produce_s_per_gb"] == 2
    assert (twice["change_bytes"], twice["partition_kb"], twice["fsynced_per_s"]) == (1, 1, 1)
    assert partitions_until_it_breaks(twice, 4) == pytest.approx(partitions_until_it_breaks(ROUND, 4) / 2, rel=0.01)


def test_a_chart_is_a_picture_that_a_browser_takes() -> None:
    lines = (Line("a & b", ((1.0, 2.0), (10.0, 3.0))), Line("c", ((1.0, 0.5), (10.0, 30.0))))
    picture = draw("four < five", [Panel("p", "across", "up", lines)] * 4)
    assert ElementTree.fromstring(picture).tag.endswith("svg")


def test_the_page_says_what_the_program_says() -> None:
    """Whoever edits the tables by hand, or the model without its page, fails here: `python -m bench.plan --kept`."""
    tables, picture = said(read())
    page = (DOCS / PAGE).read_text(encoding="utf-8")
    assert filled(page, tables) == page
    assert (DOCS / PICTURE).read_text(encoding="utf-8") == picture
