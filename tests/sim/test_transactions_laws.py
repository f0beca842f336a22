"""Judging the judge: with a bug planted in the coordinator, some world breaks a law before long."""

from collections.abc import Callable
from typing import Any

import pytest

from ottla.core.transactions import ending, group_commit, initialising, markers, partitions, pins, shard
from ottla.core.transactions.records import Status
from tests.sim.transactions_groups import run_groups
from tests.sim.transactions_scenario import Kind, run

SEEDS_MAX = 60
Plant = Callable[[Any], Any]


def keeping_the_epoch(prepared: Any) -> Any:
    return lambda t, committed, version, now_ms, new_id=-1: prepared(t, committed, 0, now_ms)._replace(
        client_version=version
    )


def committing(fenced: Any) -> Any:
    return lambda t, version, now_ms: fenced(t, version, now_ms)._replace(status=Status.PREPARE_COMMIT)


def at_the_first_marker(on_written: Any) -> Any:
    def is_whole(self: Any, written: Any) -> bool:
        on_written(self, written)
        return written.transactional_id in self._waiting

    return is_whole


def never(method: Any) -> Any:
    return lambda *arguments: None


def beginning_anew(interrupt: Any) -> Any:
    return lambda t, ask, version, now_ms: initialising._begin_anew(t, ask, now_ms)


PLANTED: list[tuple[str, Any, str, Plant]] = [
    ("the epoch stays at the end of a transaction", ending, "prepared", keeping_the_epoch),
    ("a retry is answered whatever it asks", ending, "_check_retry", never),
    ("a timeout commits", shard, "fenced", committing),
    ("a timeout does nothing", shard.TransactionShard, "_on_timeout", never),
    ("the first marker completes", markers.Markers, "on_written", at_the_first_marker),
    ("an open transaction is forgotten, not aborted", initialising, "_interrupt", beginning_anew),
    ("anybody may add partitions", partitions, "check_producer", never),
]
PLANTED_IN_GROUPS: list[tuple[str, Any, str, Plant]] = [
    ("whoever asks is told to abort", group_commit.GroupCommits, "verdict", lambda method: lambda self, pin: False),
    ("whoever asks is told to commit", group_commit.GroupCommits, "verdict", lambda method: lambda self, pin: True),
    (
        "one promise is enough",
        group_commit.Attempt,
        "is_unanimous",
        lambda method: property(lambda self: bool(self.pinned)),
    ),
    ("a producer may end what is pinned", pins.Pins, "check_free", never),
    ("nobody is told", group_commit.GroupCommits, "_announce", never),
]


@pytest.mark.parametrize(("place", "name", "plant"), [row[1:] for row in PLANTED], ids=[row[0] for row in PLANTED])
def test_the_laws_catch_it_when(place: Any, name: str, plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place, name, plant(getattr(place, name)))
    with pytest.raises(AssertionError):
        for seed in range(SEEDS_MAX):
            run(Kind.BUMPING, seed)


@pytest.mark.parametrize(
    ("place", "name", "plant"), [row[1:] for row in PLANTED_IN_GROUPS], ids=[row[0] for row in PLANTED_IN_GROUPS]
)
def test_the_laws_of_groups_catch_it_when(place: Any, name: str, plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place, name, plant(getattr(place, name)))
    with pytest.raises(AssertionError):
        for seed in range(SEEDS_MAX):
            run_groups(seed)
