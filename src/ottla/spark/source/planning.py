"""How much of what is there one micro-batch takes, and how ranges of offsets become tasks. Pure."""

from collections.abc import Iterable, Mapping
from itertools import chain, pairwise
from typing import NamedTuple, TypeAlias, TypeVar

from ottla.base.types import TopicPartition
from ottla.spark.source.options import Splitting

K = TypeVar("K")
Ends: TypeAlias = Mapping[TopicPartition, int]
"""Exclusive: the offset that comes next."""
OFFSET_MAX = 2**63 - 1


class Range(NamedTuple):
    """The offsets of one partition from `start` up to and without `end`."""

    place: TopicPartition
    start: int
    end: int

    @property
    def length(self) -> int:
        return self.end - self.start


def ranges_between(start: Ends, end: Ends) -> list[Range]:
    """A partition that is new begins at its beginning. Nothing of one that has shrunk."""
    found = (Range(place, start.get(place, 0), last) for place, last in sorted(end.items()))
    return [one for one in found if one.length > 0]


def limited(start: Ends, available: Ends, count_max: int) -> dict[TopicPartition, int]:
    """Ends that take at most so many offsets in all, each partition in proportion to what it has waiting."""
    waiting = {one.place: one.length for one in ranges_between(start, available)}
    shares = fair_shares(waiting, count_max)
    return {place: start.get(place, 0) + shares[place] if place in shares else end for place, end in available.items()}


def limited_in_bytes(
    start: Ends, available: Ends, offset_bytes: Mapping[TopicPartition, float], bytes_max: int
) -> dict[TopicPartition, int]:
    """The same by an estimate of how large the records of a partition are; always at least one offset moves on."""
    ranges = ranges_between(start, available)
    sizes = {one.place: max(1, round(one.length * offset_bytes.get(one.place, 1.0))) for one in ranges}
    shares = fair_shares(sizes, bytes_max)
    ends = dict(available)
    for one in ranges:
        ends[one.place] = one.start + one.length * shares[one.place] // sizes[one.place]
    if ranges and all(ends[one.place] == one.start for one in ranges):
        first = ranges[0]
        ends[first.place] = first.start + 1
    return ends


def fair_shares(waiting: Mapping[K, int], total: int) -> dict[K, int]:
    """`total` divided in proportion, to the last unit: what rounding leaves over goes to the largest fractions."""
    everything = sum(waiting.values())
    if everything <= total:
        return dict(waiting)
    shares = {place: count * total // everything for place, count in waiting.items()}
    left = total - sum(shares.values())
    by_fraction = sorted(waiting, key=lambda place: -(waiting[place] * total % everything))
    for place in by_fraction[:left]:
        shares[place] += 1
    return shares


def tasks_of(ranges: Iterable[Range], splitting: Splitting) -> list[list[Range]]:
    """Tasks cost some 40 ms each, so small partitions share one; a partition is cut only when that is asked for.

    Uncut, a partition is read by one task from its start to its end, and a sink behind it sees its order.
    """
    pieces = [piece for one in ranges for piece in _cut(one, splitting.records_max)]
    if splitting.partitions_min is not None and len(pieces) < splitting.partitions_min:
        pieces = _cut_into(pieces, splitting.partitions_min)
    if not pieces:
        return []
    total = sum(piece.length for piece in pieces)
    wanted = -(-total // splitting.rows_per_task)
    if splitting.records_max is not None:
        wanted = max(wanted, -(-total // splitting.records_max))
    count = min(len(pieces), max(wanted, splitting.partitions_min or 1))
    return _packed(pieces, count, splitting.records_max)


def _cut(one: Range, count_max: int | None) -> list[Range]:
    if count_max is None or one.length <= count_max:
        return [one]
    return _in_parts(one, -(-one.length // count_max))


def _in_parts(one: Range, parts: int) -> list[Range]:
    bounds = [one.start + one.length * part // parts for part in range(parts + 1)]
    return [Range(one.place, start, end) for start, end in pairwise(bounds) if end > start]


def _cut_into(pieces: list[Range], count: int) -> list[Range]:
    """At least so many, the largest cut most, as long as there is a record for each."""
    extra = fair_shares({index: piece.length for index, piece in enumerate(pieces)}, count - len(pieces))
    parts = (_in_parts(piece, min(piece.length, 1 + extra[index])) for index, piece in enumerate(pieces))
    return list(chain.from_iterable(parts))


def _packed(pieces: list[Range], count: int, records_max: int | None) -> list[list[Range]]:
    """The largest first, each to the task that has least; more tasks only where a task would hold too much."""
    tasks: list[list[Range]] = [[] for _ in range(count)]
    loads = [0] * count
    for piece in sorted(pieces, key=lambda piece: (-piece.length, piece)):
        least = loads.index(min(loads))
        if records_max is not None and loads[least] and loads[least] + piece.length > records_max:
            tasks.append([piece])
            loads.append(piece.length)
        else:
            tasks[least].append(piece)
            loads[least] += piece.length
    return [sorted(task) for task in tasks if task]
