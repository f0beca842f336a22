"""Where a read starts or ends, as its options say it: an edge, offsets, a time, or times by partition."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from ottla.base.types import TopicName, TopicPartition
from ottla.spark.option_words import BadOption

LATEST, EARLIEST = -1, -2
"""As in the connector's JSON, and in Kafka's ListOffsets."""


@dataclass(frozen=True)
class Edge:
    """The same end of every partition."""

    offset: int

    def __str__(self) -> str:
        return "latest" if self.offset == LATEST else "earliest"


@dataclass(frozen=True)
class Offsets:
    """An offset, LATEST or EARLIEST for each partition."""

    by_partition: Mapping[TopicPartition, int]


@dataclass(frozen=True)
class Since:
    """The first record that is not older, in every partition."""

    timestamp_ms: int


@dataclass(frozen=True)
class SinceByPartition:
    by_partition: Mapping[TopicPartition, int]


Position: TypeAlias = Edge | Offsets | Since | SinceByPartition


def parse_offsets(name: str, text: str) -> Position:
    if text.lower() in ("earliest", "latest"):
        return Edge(LATEST if text.lower() == "latest" else EARLIEST)
    found = _numbers(name, text, '"earliest", "latest" or JSON such as {"topic":{"0":23,"1":-2}}')
    for place, offset in found.items():
        if offset < EARLIEST:
            raise BadOption(f"option '{name}': {offset} for {place} is no offset; -2 is the earliest and -1 the latest")
    return Offsets(found)


def parse_timestamps(name: str, text: str) -> SinceByPartition:
    found = _numbers(name, text, 'JSON such as {"topic":{"0":1700000000000}}, in milliseconds')
    for place, timestamp_ms in found.items():
        if timestamp_ms < 0:
            raise BadOption(f"option '{name}': {timestamp_ms} for {place} is no time in milliseconds")
    return SinceByPartition(found)


def parse_assignment(text: str) -> list[TopicPartition]:
    """The partitions of option `assign`."""
    expected = 'JSON such as {"topic":[0,1]}'
    topics = _object("assign", text, expected)
    places = []
    for topic, indexes in topics.items():
        if not isinstance(indexes, list) or not all(_is_index(one) for one in indexes):
            raise BadOption(f"option 'assign' is {expected}, not '{text}'")
        places += [TopicPartition(TopicName(topic), index) for index in indexes]
    if not places:
        raise BadOption("option 'assign' names no partition")
    return places


def _numbers(name: str, text: str, expected: str) -> dict[TopicPartition, int]:
    numbers = {}
    for topic, partitions in _object(name, text, expected).items():
        if not isinstance(partitions, dict):
            raise BadOption(f"option '{name}' is {expected}, not '{text}'")
        for index, number in partitions.items():
            if not index.isdecimal() or not isinstance(number, int) or isinstance(number, bool):
                raise BadOption(f"option '{name}' is {expected}; '{index}': {json.dumps(number)} does not fit")
            numbers[TopicPartition(TopicName(topic), int(index))] = number
    return numbers


def _object(name: str, text: str, expected: str) -> dict[str, object]:
    try:
        found = json.loads(text)
    except json.JSONDecodeError as fault:
        raise BadOption(f"option '{name}' is {expected}, not '{text}' ({fault})") from None
    if not isinstance(found, dict):
        raise BadOption(f"option '{name}' is {expected}, not '{text}'")
    return found


def _is_index(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
