"""What Kafka's tools print, as they print it in 4.3."""

import pytest

from bench.race.java_tools import Ended, ToolFailed, consumed, produced

PRODUCED = """\
160961 records sent, 32192.2 records/sec (30.70 MB/sec), 811.0 ms avg latency, 1045.0 ms max latency.
400000 records sent, 41854.1 records/sec (39.91 MB/sec), 692.45 ms avg latency, 1045.00 ms max latency, 700 ms 50th, \
980 ms 95th, 1020 ms 99th, 1044 ms 99.9th.
"""
CONSUMED = (
    "2026-01-01 10:00:00:000, 2026-01-01 10:00:04:000, 381.4697, 95.3674, 400000, 100000.0000, 3500, 500, "
    "762.9395, 800000.0000\n"
)


def test_the_totals_of_the_producer_are_its_last_line() -> None:
    load = produced(Ended(PRODUCED, 12.0, 11.0), 400_000)
    assert load.seconds == pytest.approx(400_000 / 41854.1)
    assert load.client_cores == pytest.approx(12.0 / 11.0)


@pytest.mark.parametrize("text", ["", PRODUCED.splitlines()[0], PRODUCED.replace("400000", "399999")])
def test_a_producer_that_did_not_finish_has_measured_nothing(text: str) -> None:
    with pytest.raises(ToolFailed):
        produced(Ended(text, 1.0, 1.0), 400_000)


def test_a_consumer_is_judged_by_its_fetches_not_by_the_rebalance_before() -> None:
    assert consumed(Ended(CONSUMED, 3.0, 6.0), 400_000).seconds == 0.5


@pytest.mark.parametrize("text", ["", "2026, oops", CONSUMED.replace("400000", "1000")])
def test_a_consumer_that_did_not_get_all_has_measured_nothing(text: str) -> None:
    with pytest.raises(ToolFailed):
        consumed(Ended(text, 1.0, 1.0), 400_000)
