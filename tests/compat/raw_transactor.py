"""A transactional producer by hand: each request can be made now and sent later, on any connection."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from .batches import batch
from .raw import READY_SECONDS_MAX, Raw
from .wire import Fields, Wire

TRANSACTIONAL = 0x10
LOADING, NOT_AVAILABLE, NOT_COORDINATOR, CONCURRENT = 14, 15, 16, 51
"""Answers to somebody who is too early."""
COMMITTED = 1


@dataclass(frozen=True)
class Protocol:
    """The versions by which a producer says which protocol it speaks."""

    name: str
    produce: int
    end: int
    offsets: int
    joins: bool
    """Partitions and groups are made known to the coordinator by requests of their own."""


CLASSIC = Protocol("classic", 11, 4, 3, joins=True)
SECOND = Protocol("second", 12, 5, 5, joins=False)


@dataclass(frozen=True)
class Request:
    api: str
    version: int
    fields: Fields

    def send(self, wire: Wire) -> None:
        wire.send(self.api, self.version, self.fields)

    def code(self, answer: Fields) -> int:
        match self.api:
            case "produce":
                return int(answer["responses"][0]["partition_responses"][0]["error_code"])
            case "add_partitions_to_txn":
                results = answer["results_by_topic_v3_and_below"][0]["results_by_partition"]
                return int(results[0]["partition_error_code"])
            case "txn_offset_commit":
                return int(answer["topics"][0]["partitions"][0]["error_code"])
        return int(answer["error_code"])


class Transactor:
    def __init__(self, raw: Raw, protocol: Protocol) -> None:
        self.raw = raw
        self.protocol = protocol
        self.id = raw.name("transactor")
        self._sequences: dict[str, int] = {}
        # Whoever is asked first for a coordinator makes the log that it needs.
        raw.ask("find_coordinator", 4, key_type=1, coordinator_keys=[self.id])
        init = {"transaction_timeout": 60_000, "producer_id": -1, "producer_epoch": -1}
        answer = self._insist(Request("init_producer_id", 4, {**init, "transactional_id": self.id}))
        self._take_identity(answer)

    def _take_identity(self, answer: Fields) -> None:
        assert answer["error_code"] == 0, answer
        self.producer_id, self.epoch = answer["producer_id"], answer["producer_epoch"]
        self._sequences.clear()

    def _insist(self, request: Request) -> Fields:
        deadline = time.monotonic() + READY_SECONDS_MAX
        while True:
            answer = self.raw.ask(request.api, request.version, **request.fields)
            if request.code(answer) not in (LOADING, NOT_AVAILABLE, NOT_COORDINATOR, CONCURRENT):
                return answer
            assert time.monotonic() < deadline, answer
            time.sleep(0.01)

    def do(self, request: Request) -> int:
        """The error code; not before there is one that says something."""
        return request.code(self._insist(request))

    # --- requests

    def _identity(self) -> dict[str, Any]:
        return {"transactional_id": self.id, "producer_id": self.producer_id, "producer_epoch": self.epoch}

    def join(self, topic: str) -> Request:
        identity = {f"v3_and_below_{name}": value for name, value in self._identity().items()}
        topics = [{"name": topic, "partitions": [0]}]
        return Request("add_partitions_to_txn", 3, {**identity, "v3_and_below_topics": topics})

    def join_group(self, group: str) -> Request:
        return Request("add_offsets_to_txn", 3, {**self._identity(), "group_id": group})

    def produce(self, topic: str, value: bytes) -> Request:
        sequence = self._sequences.get(topic, 0)
        self._sequences[topic] = sequence + 1
        stamp = {"producer_id": self.producer_id, "producer_epoch": self.epoch, "base_sequence": sequence}
        data = [{"index": 0, "records": batch(value, attributes=TRANSACTIONAL, **stamp)}]
        fields = {"acks": -1, "timeout": 10_000, "topic_data": [{"name": topic, "partition_data": data}]}
        return Request("produce", self.protocol.produce, {**fields, "transactional_id": self.id})

    def offsets(self, group: str, topic: str, offset: int) -> Request:
        partitions = [{"partition_index": 0, "committed_offset": offset, "committed_leader_epoch": -1}]
        fields = {"group_id": group, "generation_id": -1, "topics": [{"name": topic, "partitions": partitions}]}
        return Request("txn_offset_commit", self.protocol.offsets, {**self._identity(), **fields})

    def end(self, committed: bool) -> Request:
        return Request("end_txn", self.protocol.end, {**self._identity(), "committed": committed})

    # --- what a well-behaved producer does

    def write(self, topic: str, value: bytes) -> None:
        if self.protocol.joins:
            assert self.do(self.join(topic)) == 0
        assert self.do(self.produce(topic, value)) == 0

    def send_offset(self, group: str, topic: str, offset: int) -> None:
        if self.protocol.joins:
            assert self.do(self.join_group(group)) == 0
        assert self.do(self.offsets(group, topic, offset)) == 0

    def finish(self, committed: bool) -> None:
        """The end, and what follows from it for the next transaction."""
        answer = self._insist(self.end(committed))
        assert answer["error_code"] == 0, answer
        if not self.protocol.joins:
            self._take_identity(answer)

    def withdraw(self, topic: str) -> None:
        """A batch that was made and never arrived: its sequence number is free again, as after an abort."""
        self._sequences[topic] -= 1


def stable_end(raw: Raw, topic: str) -> int:
    """Readers of committed data get as far as this."""
    return int(raw.list_offset(topic, -1, isolation_level=COMMITTED)["offset"])


def committed_offset(raw: Raw, group: str, topic: str) -> int:
    """When no transaction is about to change it any more."""
    deadline = time.monotonic() + READY_SECONDS_MAX
    wanted = [{"group_id": group, "topics": [{"name": topic, "partition_indexes": [0]}]}]
    while True:
        answer = raw.ask("offset_fetch", 8, groups=wanted, require_stable=True)["groups"][0]
        place = answer["topics"][0]["partitions"][0]
        if not answer["error_code"] and not place["error_code"]:
            return int(place["committed_offset"])
        assert time.monotonic() < deadline, answer
        time.sleep(0.01)
