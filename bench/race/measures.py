"""What is measured, in which direction better lies, and the goals: ratios of Ottla's figure to Apache Kafka's."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from bench.race.arena import CLIENT_BOUND_CORES


class Better(Enum):
    HIGHER = "higher"
    LOWER = "lower"
    NEITHER = "–"
    """For the reader; compared with nothing."""


@dataclass(frozen=True)
class Measure:
    better: Better
    goal: float | None = None
    bounded_by_client: bool = False
    """A rate: where the client is the bottleneck on both sides, it says nothing about the brokers."""


_UP, _DOWN, _NEITHER = Better.HIGHER, Better.LOWER, Better.NEITHER

MEASURES: Mapping[str, Measure] = {
    "MB/s": Measure(_UP, 1.0, bounded_by_client=True),
    "broker cpu s/GB": Measure(_DOWN, 1.0),
    "requests/s": Measure(_UP, 0.8, bounded_by_client=True),
    "broker cpu us/request": Measure(_DOWN),
    "p50 ms": Measure(_DOWN),
    "p99 ms": Measure(_DOWN, 0.7),
    "p99.9 ms": Measure(_DOWN),
    "first ack s": Measure(_DOWN, 0.2),
    "idle memory MB": Measure(_DOWN, 0.15),
    "peak memory MB": Measure(_DOWN, 0.3),
    "memory MB": Measure(_DOWN, 0.3),
    "restart s": Measure(_DOWN, 0.5),
    "idle cpu %": Measure(_DOWN, 0.5),
    "restart after kill s": Measure(_DOWN, 1.0),
    "creation s": Measure(_DOWN),
    "stop s": Measure(_DOWN),
    "connecting s": Measure(_DOWN),
    "joined s": Measure(_DOWN),
    "acks/s": Measure(_UP, 1.0, bounded_by_client=True),
    "commit p50 ms": Measure(_DOWN),
    "commit p99 ms": Measure(_DOWN),
    "broker cpu s": Measure(_DOWN),
    "produce p99 ms": Measure(_DOWN),
    "rows/s": Measure(_UP, 1.5),
    "rows copied/s": Measure(_UP),
    "cpu us/row": Measure(_DOWN),
    "client cores": Measure(_NEITHER),
    "sender late p99 ms": Measure(_NEITHER),
}


class Verdict(Enum):
    MET = "met"
    MISSED = "missed"
    CLIENT_BOUND = "client-bound"
    NO_GOAL = ""
    UNKNOWN = "not measured"


def advantage(measure: Measure, ratio: float | None) -> float | None:
    """How many times better Ottla is; below 1, worse."""
    if ratio is None or measure.better is Better.NEITHER:
        return None
    if measure.better is Better.HIGHER:
        return ratio
    return 1 / ratio if ratio > 0 else float("inf")


def is_client_bound(client_cores: Mapping[str, float]) -> bool:
    """Only if the client is at its limit on both sides: one side alone may simply be the slower broker."""
    return len(client_cores) == 2 and min(client_cores.values()) >= CLIENT_BOUND_CORES


def judge(measure: Measure, ratio: float | None, client_cores: Mapping[str, float]) -> Verdict:
    if measure.goal is None or measure.better is Better.NEITHER:
        return Verdict.NO_GOAL
    if ratio is None:
        return Verdict.UNKNOWN
    if measure.bounded_by_client and is_client_bound(client_cores):
        return Verdict.CLIENT_BOUND
    is_met = ratio >= measure.goal if measure.better is Better.HIGHER else ratio <= measure.goal
    return Verdict.MET if is_met else Verdict.MISSED
