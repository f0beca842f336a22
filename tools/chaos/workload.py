"""What the clients are told to do: a seeded choice, one operation after the other."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from tools.chaos.copies import SUFFIX, copy_key
from tools.chaos.history import Function, Key, Op
from tools.chaos.payload import split_key

SENDS_MAX = 4
BURST_ONE_IN = 10
BURST_SENDS_MAX = 80
"""Small ones, so that several batches are under way at once."""
SIZES = (40, 200, 1_000, 6_000)
CHANGE_ONE_IN = 64
"""Operations that change what a client reads."""
OVERSIZED_ONE_IN = 100
REWIND_MAX = 60
"""Whoever is assigned a key anew begins at most so many offsets before its known end, or at its very beginning."""
KEYS_A_CLIENT = 6
POLL_RECORDS_MAX = 100
MOPS_MAX = 4
"""Of a transaction."""
ABORT_ONE_IN = 10
HASTY = 0.5
"""Of the transactions: they leave it to the commit to wait for their records."""
DELAY_ONE_IN = 10
DELAY_SECONDS_MAX = 1.0
"""After each step of a transaction that is delayed."""
COPY_RECORDS_MAX = 30
FROM_THE_START_ONE_IN = 8

TOPICS: dict[str, dict[str, str]] = {
    "chaos-plain": {"segment.bytes": "1048576"},
    "chaos-synced": {"segment.bytes": "1048576", "flush.messages": "1"},
    "chaos-packed": {"compression.type": "gzip", "message.timestamp.type": "LogAppendTime"},
    "chaos-indexed": {"segment.bytes": "1048576", "index.interval.bytes": "100"},
}
SOURCES = ("chaos-plain", "chaos-synced", "chaos-indexed", "chaos-packed")
"""Topics that are copied, each by the clients of one group."""
MESSAGE_BYTES_MAX = 60_000
OVERSIZED_BYTES = 90_000


SECOND_PROTOCOL = frozenset({"ottla", "java"})
"""Libraries whose transactions have epochs of their own (KIP-890). The others speak the classic protocol."""


@dataclass(frozen=True)
class Role:
    """What kind of client it is."""

    library: str
    is_subscribing: bool = False
    group: str = "alone"
    protocol: str = "classic"
    compression: str = "none"
    is_transactional: bool = False
    source: str = ""
    """The topic that it copies, in transactions with the offsets of its group."""

    def __str__(self) -> str:
        reads = f"{self.group}/{self.protocol}" if self.is_subscribing else "assign"
        does = f" copies {self.source}" if self.source else " transactions" if self.is_transactional else ""
        return f"{self.library} {reads}{does}"


ROLES = (
    Role("confluent"),
    Role("confluent", True, "classic", compression="lz4"),
    Role("confluent", True, "modern", "consumer", "zstd"),
    Role("kafka-python", compression="gzip"),
    Role("aiokafka"),
    Role("confluent", True, "modern", "consumer"),
    Role("aiokafka", True, "classic", compression="lz4"),
    Role("kafka-python", True, "classic"),
)
"""In this order, as many as there are plain clients."""
TRANSACTIONAL_ROLES = tuple(
    replace(role, is_transactional=True)
    for role in (
        Role("confluent", compression="lz4"),
        Role("confluent", True, "copiers", source=SOURCES[0]),
        Role("ottla", group="own-copier", source=SOURCES[3]),
        Role("kafka-python", compression="gzip"),
        Role("aiokafka"),
        Role("ottla"),
        # aiokafka does not say which member commits; so nobody but this one may, and its transactional id fences it.
        Role("aiokafka", group="lone-copier", source=SOURCES[1]),
        Role("confluent", True, "modern-copiers", "consumer", source=SOURCES[2]),
        Role("kafka-python", True, "copiers", source=SOURCES[0]),
        Role("confluent", True, "modern-copiers", "consumer", "zstd", source=SOURCES[2]),
    )
)
"""In this order, as many as there are clients with transactions."""


def topics() -> dict[str, dict[str, str]]:
    """Of all topics, the copies too: how they are configured."""
    return TOPICS | {source + SUFFIX: {} for source in SOURCES}


class Workload:
    """Shared by the clients' threads."""

    def __init__(self, rng: Random, partitions: int) -> None:
        self._rng = rng
        self._lock = threading.Lock()
        self.keys: list[Key] = [f"{topic}/{at}" for topic in TOPICS for at in range(partitions)]
        self.copies: list[Key] = [copy_key(key) for key in self.keys if split_key(key)[0] in SOURCES]
        self._next_value = dict.fromkeys(self.keys, 0)
        self._next_attempt = 1
        self._ends = dict.fromkeys([*self.keys, *self.copies], 0)

    def keys_of(self, topic: str) -> list[Key]:
        return [key for key in self.keys if split_key(key)[0] == topic]

    def next_request(self, role: Role, is_fresh: bool) -> dict[str, Any]:
        """`is_fresh`: a new process, which reads nothing yet."""
        with self._lock:
            if role.source:
                return self._begin_copying(role) if is_fresh else self._copy()
            if is_fresh or self._rng.randrange(CHANGE_ONE_IN) == 0:
                return self._subscribe() if role.is_subscribing else self._assign()
            if role.is_transactional:
                return self._transact()
            if self._rng.random() < 0.5:
                return self.poll(self._rng.random() < 0.5)
            return self._send(role)

    def note(self, op: Op) -> None:
        """The ends of the logs, as far as somebody has seen them."""
        with self._lock:
            for send in op.sends():
                if send.offset is not None and op.is_acked(send):  # nobody will see what was aborted
                    self._ends[send.key] = max(self._ends[send.key], send.offset + 1)
            for key, seen in op.reads().items():
                self._ends[key] = max(self._ends.get(key, 0), seen[-1][0] + 1)

    def ends(self) -> dict[Key, int]:
        with self._lock:
            return {key: end for key, end in self._ends.items() if end}

    def poll(self, commits: bool = False) -> dict[str, Any]:
        return {"f": Function.POLL, "seconds": 0.15, "records_max": POLL_RECORDS_MAX, "commits": commits}

    def assign_everything(self) -> dict[str, Any]:
        return {"f": Function.ASSIGN, "keys": dict.fromkeys([*self.keys, *self.copies], 0)}

    def _assign(self) -> dict[str, Any]:
        known = [*self.keys, *self.copies]
        chosen = self._rng.sample(known, min(KEYS_A_CLIENT, len(known)))
        return {"f": Function.ASSIGN, "keys": {key: self._beginning(key) for key in chosen}}

    def _beginning(self, key: Key) -> int:
        if self._rng.randrange(FROM_THE_START_ONE_IN) == 0:
            return 0
        return max(0, self._ends[key] - self._rng.randrange(REWIND_MAX))

    def _subscribe(self) -> dict[str, Any]:
        topics = set(self._rng.sample(list(TOPICS), self._rng.randint(2, len(TOPICS))))
        return {"f": Function.SUBSCRIBE, "keys": {key: None for key in self.keys if split_key(key)[0] in topics}}

    def _send(self, role: Role) -> dict[str, Any]:
        if role.library == "confluent" and self._rng.randrange(OVERSIZED_ONE_IN) == 0:
            return {"f": Function.SEND, "sends": [self._record(self._rng.choice(self.keys), OVERSIZED_BYTES)]}
        if self._rng.randrange(BURST_ONE_IN) == 0:
            key = self._rng.choice(self.keys)
            count = self._rng.randint(SENDS_MAX, BURST_SENDS_MAX)
            return {"f": Function.SEND, "sends": [self._record(key, self._rng.choice(SIZES)) for _ in range(count)]}
        keys = self._rng.choices(self.keys, k=self._rng.randint(1, 2))
        sends = [
            self._record(self._rng.choice(keys), self._rng.choice(SIZES))
            for _ in range(self._rng.randint(1, SENDS_MAX))
        ]
        return {"f": Function.SEND, "sends": sends}

    # --- transactions

    def _transact(self) -> dict[str, Any]:
        keys = self._rng.choices(self.keys, k=self._rng.randint(1, 3))
        mops: list[list[Any]] = []
        for _ in range(self._rng.randint(1, MOPS_MAX)):
            is_poll = self._rng.random() < 0.4
            mops.append(["poll"] if is_poll else ["send", *self._record(self._rng.choice(keys), self._size())])
        return {**self._course(POLL_RECORDS_MAX), "mops": mops}

    def _begin_copying(self, role: Role) -> dict[str, Any]:
        """A member goes on where its group has got to, and so does who has all to itself."""
        keys = dict.fromkeys(self.keys_of(role.source))
        return {"f": Function.SUBSCRIBE if role.is_subscribing else Function.ASSIGN, "keys": keys}

    def _copy(self) -> dict[str, Any]:
        attempt = self._next_attempt
        self._next_attempt += 1
        return {**self._course(COPY_RECORDS_MAX), "attempt": attempt}

    def _course(self, records_max: int) -> dict[str, Any]:
        is_delayed = self._rng.randrange(DELAY_ONE_IN) == 0
        return {
            "f": Function.TXN,
            "commits": self._rng.randrange(ABORT_ONE_IN) != 0,
            "is_hasty": self._rng.random() < HASTY,
            "delay_seconds": self._rng.random() * DELAY_SECONDS_MAX if is_delayed else 0.0,
            "seconds": 0.15,
            "records_max": records_max,
        }

    def _size(self) -> int:
        return self._rng.choice(SIZES)

    def _record(self, key: Key, size: int) -> list[Any]:
        value = self._next_value[key]
        self._next_value[key] = value + 1
        return [key, value, size]
