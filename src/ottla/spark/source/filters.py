"""Filters of a batch query that need not be read first: topic, partition, offset, and the earliest timestamp. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from ottla.base.types import TopicPartition
from ottla.spark.source.planning import OFFSET_MAX, Range

_TIME = ("timestamp",)
_NEVER_NULL = frozenset(("topic", "partition", "offset"))


@dataclass(frozen=True)
class Wanted:
    """What is left to read; only ever less than before."""

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    offsets: tuple[int, int] = (0, OFFSET_MAX)
    since_ms: int | None = None

    def has(self, place: TopicPartition) -> bool:
        is_topic = self.topics is None or place.topic in self.topics
        return is_topic and (self.partitions is None or place.partition in self.partitions)

    def within(self, ranges: Iterable[Range]) -> list[Range]:
        low, high = self.offsets
        cut = (Range(one.place, max(one.start, low), min(one.end, high)) for one in ranges if self.has(one.place))
        return [one for one in cut if one.length > 0]


def wanted_by(filters: Sequence[Filter]) -> tuple[Wanted, list[Filter]]:
    """What the filters leave, and those that Spark has to apply itself.

    A timestamp is used and handed back: records need not be in the order of their times, so that the first one that is
    late enough says where to begin, but not that all behind it are.
    """
    wanted, handed_back = Wanted(), []
    for one in filters:
        narrowed = _narrowed(wanted, one)
        wanted = narrowed or wanted
        if narrowed is None or one.attribute == _TIME:  # type: ignore[attr-defined]
            handed_back.append(one)
    return wanted, handed_back


def _narrowed(wanted: Wanted, one: Filter) -> Wanted | None:
    """None: this filter says nothing that could be used."""
    match one:
        case EqualTo(("topic",), str(value)):
            return replace(wanted, topics=_both(wanted.topics, {value}))
        case In(("topic",), values) if _all(values, str):
            return replace(wanted, topics=_both(wanted.topics, set(values)))
        case EqualTo(("partition",), int(value)):
            return replace(wanted, partitions=_both(wanted.partitions, {value}))
        case In(("partition",), values) if _all(values, int):
            return replace(wanted, partitions=_both(wanted.partitions, set(values)))
        case EqualTo(("offset",), int(value)):
            return _between(wanted, value, value + 1)
        case GreaterThan(("offset",), int(value)):
            return _between(wanted, value + 1, OFFSET_MAX)
        case GreaterThanOrEqual(("offset",), int(value)):
            return _between(wanted, value, OFFSET_MAX)
        case LessThan(("offset",), int(value)):
            return _between(wanted, 0, value)
        case LessThanOrEqual(("offset",), int(value)):
            return _between(wanted, 0, value + 1)
        case EqualTo(("timestamp",), datetime() as value):
            return _since(wanted, value)
        case GreaterThan(("timestamp",), datetime() as value) | GreaterThanOrEqual(("timestamp",), datetime() as value):
            return _since(wanted, value)
        case IsNotNull((name,)) if name in _NEVER_NULL:
            return wanted
        case _:
            return None


def _both(before: frozenset[Any] | None, values: set[Any]) -> frozenset[Any]:
    return frozenset(values) if before is None else before & values


def _between(wanted: Wanted, low: int, high: int) -> Wanted:
    before_low, before_high = wanted.offsets
    return replace(wanted, offsets=(max(before_low, low), min(before_high, high)))


def _since(wanted: Wanted, moment: datetime) -> Wanted:
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    since_ms = int(aware.timestamp() * 1000) - 1  # rounding must not cost a record
    return replace(wanted, since_ms=max(since_ms, wanted.since_ms or 0))


def _all(values: Any, kind: type) -> bool:
    return isinstance(values, tuple | list) and all(isinstance(value, kind) for value in values)
