"""What the members of a group own and see, and the laws that this has to obey."""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable

Place = tuple[str, int]
"""Topic and partition."""
WAIT_SECONDS_MAX = 40.0


def wait_until(is_true: Callable[[], bool], what: Callable[[], str] | str) -> None:
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not is_true():
        assert time.monotonic() < deadline, what if isinstance(what, str) else what()
        time.sleep(0.01)


class Ledger:
    """Written by the threads of all members, read by the test."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.owners: dict[Place, str] = {}
        self.seen: defaultdict[Place, list[int]] = defaultdict(list)
        self.commits: defaultdict[Place, set[int]] = defaultdict(set)
        self.faults: list[str] = []
        self.refused_commits: list[str] = []
        self.lost: set[Place] = set()
        """Taken from a member that could not commit any more what it had worked on."""
        self.times_taken: Counter[str] = Counter()

    def take(self, member: str, places: Iterable[Place]) -> None:
        with self._lock:
            self.times_taken[member] += 1
            for place in places:
                other = self.owners.get(place)
                if other is not None:
                    self.faults.append(f"{member} was given {place}, which {other} owns")
                self.owners[place] = member

    def drop(self, member: str, places: Iterable[Place]) -> None:
        with self._lock:
            for place in places:
                if self.owners.get(place) != member:
                    self.faults.append(f"{member} lets go of {place}, which {self.owners.get(place)} owns")
                self.owners.pop(place, None)

    def drop_all(self, member: str) -> None:
        """The member is dead, or regarded as dead."""
        with self._lock:
            self.owners = {place: owner for place, owner in self.owners.items() if owner != member}

    def see(self, member: str, place: Place, offset: int) -> None:
        with self._lock:
            if self.owners.get(place) != member:
                self.faults.append(f"{member} reads {place}, which {self.owners.get(place)} owns")
            self.seen[place].append(offset)

    def owned_by(self, member: str) -> list[Place]:
        with self._lock:
            return sorted(place for place, owner in self.owners.items() if owner == member)

    def wait_shared(self, members: Iterable[str], places: Iterable[Place]) -> None:
        """Until each of the places is owned, by these members and nobody else, all of whom own some."""
        wanted, all_places = set(members), set(places)

        def is_shared() -> bool:
            with self._lock:
                return self.owners.keys() == all_places and set(self.owners.values()) == wanted

        wait_until(is_shared, lambda: f"{sorted(wanted)} should share {len(all_places)}: {self.owners} {self.faults}")

    def wait_seen(self, counts: dict[Place, int]) -> None:
        """Until every record has been seen, where `counts` are the ends of the partitions."""
        wait_until(lambda: not self.missing(counts), lambda: f"not seen: {self.missing(counts)}")

    def missing(self, counts: dict[Place, int]) -> dict[Place, list[int]]:
        with self._lock:
            lost = {place: sorted(set(range(count)) - set(self.seen[place])) for place, count in counts.items()}
        return {place: offsets for place, offsets in lost.items() if offsets}

    def doubled(self) -> dict[Place, list[int]]:
        """Places where somebody went on before a committed offset, and worked again on what lies in front of it.

        librdkafka may hand out records that it fetched for an earlier assignment of the partition, before it goes on at
        the committed offset (with Apache Kafka, too): such a stale front does not reach up to any commit.
        """
        found = {}
        for place, offsets in self.seen.items():
            again = sorted(offset for offset, times in Counter(offsets).items() if times > 1)
            if any(offset + 1 in self.commits[place] for offset in again):
                found[place] = again
        return found
