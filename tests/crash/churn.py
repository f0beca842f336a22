"""Somebody who creates, changes, fills and deletes topics without a pause, and knows what was promised of each."""

from __future__ import annotations

import random
import threading
import time
from dataclasses import dataclass, field

from ottla.wire.batch import encode_batch, new_records

from .client import EARLIEST, LATEST, Client

NAMES = 8
CONFIG, CONFIG_DEFAULT = "retention.ms", "604800000"


@dataclass
class _Topic:
    partitions: int
    config: set[str]
    """What the setting may be: one value, or two while a change is unanswered."""
    end_offset: int = 0
    """Of partition 0: what has been acknowledged."""
    end_offset_max: int = 0
    start_offset: int = 0


@dataclass
class Churn:
    """Names are either known to be there, known to be gone, or in between: an answer is missing."""

    seed: int
    there: dict[str, _Topic] = field(default_factory=dict)
    gone: set[str] = field(default_factory=lambda: {f"churn-{number}" for number in range(NAMES)})
    creating: dict[str, _Topic] = field(default_factory=dict)
    deleting: dict[str, _Topic] = field(default_factory=dict)
    answers: int = 0

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def run(self, client: Client, stop: threading.Event) -> None:
        while not stop.is_set():
            self._step(client)
            self.answers += 1

    def abandon(self) -> None:
        """What was unanswered is unknown now; `check` finds out."""

    def _step(self, client: Client) -> None:
        name = self._random.choice(sorted(self.gone | self.there.keys()))
        if name in self.gone:
            self._create(client, name)
            return
        act = self._random.choice([self._delete, self._configure, self._fill, self._fill, self._empty])
        act(client, name, self.there[name])

    def _create(self, client: Client, name: str) -> None:
        topic = self.creating[name] = _Topic(self._random.randint(1, 4), {"77000"})
        self.gone.discard(name)
        client.create_topic(name, topic.partitions, {CONFIG: "77000"})
        self.there[name] = self.creating.pop(name)

    def _delete(self, client: Client, name: str, topic: _Topic) -> None:
        self.deleting[name] = self.there.pop(name)
        client.delete_topic(name)
        del self.deleting[name]
        self.gone.add(name)

    def _configure(self, client: Client, name: str, topic: _Topic) -> None:
        value = str(self._random.randrange(60_000, 10**9))
        topic.config.add(value)
        client.set_config(name, CONFIG, value)
        topic.config = {value}

    def _fill(self, client: Client, name: str, topic: _Topic) -> None:
        count = self._random.randint(1, 20)
        records = new_records([(None, name.encode() * 20)] * count, time.time_ns() // 1_000_000)
        topic.end_offset_max += count
        base_offset = client.produce(name, 0, encode_batch(records), acks=1)
        assert topic.end_offset <= base_offset <= topic.end_offset_max - count, (name, topic, base_offset)
        topic.end_offset = base_offset + count

    def _empty(self, client: Client, name: str, topic: _Topic) -> None:
        offset = self._random.randint(topic.start_offset, topic.end_offset)
        topic.start_offset = max(topic.start_offset, client.delete_records(name, 0, offset))

    # --- after a restart

    def check(self, client: Client, directories: set[str]) -> None:
        """`directories` are the partitions on disk; what is unknown becomes known."""
        present = client.topics()
        for name in [*self.creating, *self.deleting]:
            topic = self.creating.pop(name, None) or self.deleting.pop(name)
            if name in present:
                self.there[name] = topic
            else:
                self.gone.add(name)
        assert {name: topic.partitions for name, topic in self.there.items()} == present
        expected = {f"{name}-{index}" for name, topic in self.there.items() for index in range(topic.partitions)}
        assert directories == expected
        for name, topic in self.there.items():
            self._check_topic(client, name, topic)

    def _check_topic(self, client: Client, name: str, topic: _Topic) -> None:
        value = client.config(name, CONFIG)
        assert value in topic.config, (name, value, topic)
        topic.config = {value}
        start, end = client.list_offset(name, 0, EARLIEST), client.list_offset(name, 0, LATEST)
        assert topic.end_offset <= end <= topic.end_offset_max, (name, topic, end)
        assert topic.start_offset <= start <= end, (name, topic, start)
        topic.end_offset = topic.end_offset_max = end
        for partition in range(topic.partitions):
            records = new_records([(None, b"after the restart")], time.time_ns() // 1_000_000)
            base_offset = client.produce(name, partition, encode_batch(records))
            if partition == 0:
                assert base_offset == end
                topic.end_offset = topic.end_offset_max = end + 1
