"""How producers of transactions talk to a node, and what makes two nodes' answers comparable."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from ottla.wire.frame import decode_response_header
from ottla.wire.messages.describe_transactions import DescribeTransactionsResponse
from ottla.wire.primitives import Message

from .batches import batch
from .conversations import Talk
from .raw import FOREVER, Raw
from .wire import Fields

PROMPT = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "group.initial.rebalance.delay.ms": "0",
}
"""Whoever lets his time pass is noticed soon, by Apache Kafka too, and nobody waits for others."""
SECONDS_MAX = 30.0
TRANSACTIONAL = 0x10
NOT_YET = (14, 15, 16, 51)
UNORDERED = frozenset(
    {
        "active_producers",
        "markers",
        "results_by_partition",
        "results_by_topic_v3_and_below",
        "results_by_transaction",
        "topic_results",
        "topics",
        "transaction_states",
    }
)
PRODUCER_FIELDS = frozenset({"producer_id"})


class TxnRaw(Raw):
    """kio takes the times of DescribeTransactions for points in time, and finds none before 1970: not even -1."""

    def receive(self, api: str, version: int) -> Fields:
        if api != "describe_transactions":
            return super().receive(api, version)
        frame = memoryview(self.receive_frame())
        self.answered, at = decode_response_header(frame, 0, flexible=True)
        answer, at = DescribeTransactionsResponse.decode(frame, at, version)
        assert at == len(frame)
        plain: Fields = _plain(answer)
        return plain


def _plain(value: Any) -> Any:
    if isinstance(value, Message):
        return {name: _plain(getattr(value, name)) for name in value.__slots__}
    return [_plain(item) for item in value] if isinstance(value, list) else value


class TxnTalk(Talk):
    """Gives producer ids names in the order of their appearance."""

    def __init__(self, raw: Raw) -> None:
        super().__init__(raw)
        self._producers: dict[int, str] = {}
        self._times: Counter[tuple[str, str, int]] = Counter()
        self.topic = raw.create("topic", 3, FOREVER)

    def __call__(self, step: str, api: str, version: int, **fields: Any) -> Fields:
        step = step.replace(f"{self.raw.token}-", "")
        times = self._times[step, api, version] = self._times[step, api, version] + 1
        return super().__call__(step if times == 1 else f"{step} ({times})", api, version, **fields)

    def normal(self, value: Any, field: str = "") -> Any:
        if field in PRODUCER_FIELDS and isinstance(value, int) and value >= 0:
            return self._producers.setdefault(value, f"producer {len(self._producers)}")
        if isinstance(value, list) and field in UNORDERED:
            return sorted((self.normal(item, field) for item in value), key=json.dumps)
        if isinstance(value, dict) and value.get("topic") == "__consumer_offsets":
            # Which partition it is depends on the token in the group's name.
            return {"topic": value["topic"], "partitions": len(value["partitions"])}
        return super().normal(value, field)

    def _batch(self, header: Any) -> dict[str, Any]:
        return {**super()._batch(header), "producer_id": self.normal(header.producer_id, "producer_id")}

    def init(self, transactional_id: str, version: int = 5, step: str = "begins", **changes: Any) -> Fields:
        """A producer, as the fields of its next request. Waits for whatever has to end first."""
        ask = {"transactional_id": transactional_id, "transaction_timeout": 60_000, **NOBODY, **changes}
        self.settle(transactional_id)
        answer = self(f"{transactional_id} {step}", "init_producer_id", version, **ask)
        return {
            "transactional_id": transactional_id,
            "producer_id": answer["producer_id"],
            "producer_epoch": answer["producer_epoch"],
        }

    def settle(self, transactional_id: str) -> None:
        deadline = time.monotonic() + SECONDS_MAX
        while True:
            [found] = self.raw.ask("describe_transactions", 0, transactional_ids=[transactional_id])[
                "transaction_states"
            ]
            if found["error_code"] not in NOT_YET and not found["transaction_state"].startswith("Prepare"):
                return
            assert time.monotonic() < deadline, found
            time.sleep(0.005)

    def add(self, me: Fields, step: str = "adds", version: int = 3, *indexes: int) -> Fields:
        return self(
            f"{me['transactional_id']} {step}",
            "add_partitions_to_txn",
            version,
            **added(me, {"name": self.topic, "partitions": list(indexes or (0,))}, version=version),
        )

    def write(self, me: Fields, step: str = "writes", version: int = 11, index: int = 0, **changes: Any) -> Fields:
        request = writing(self, me, version, index, **changes)
        return self(f"{me['transactional_id']} {step}", "produce", version, **request)

    def end(self, me: Fields, committed: bool = True, step: str = "ends", version: int = 4) -> Fields:
        answer = self(f"{me['transactional_id']} {step}", "end_txn", version, **me, committed=committed)
        self.settle(me["transactional_id"])
        return answer

    def describe(self, me: Fields, step: str) -> None:
        self(
            f"{me['transactional_id']} {step}",
            "describe_transactions",
            0,
            transactional_ids=[me["transactional_id"]],
        )


NOBODY: Fields = {"producer_id": -1, "producer_epoch": -1}


def added(me: Fields, *topics: Fields, version: int, verify: bool = False) -> Fields:
    if version >= 4:
        return {"transactions": [{**me, "verify_only": verify, "topics": list(topics)}]}
    return {**{f"v3_and_below_{key}": value for key, value in me.items()}, "v3_and_below_topics": list(topics)}


def writing(talk: TxnTalk, me: Fields, version: int, index: int = 0, **changes: Any) -> Fields:
    header = {
        "attributes": changes.pop("attributes", TRANSACTIONAL),
        "producer_id": me["producer_id"],
        "producer_epoch": me["producer_epoch"],
        "base_sequence": changes.pop("sequence", 0),
    }
    topic = changes.pop("topic", talk.topic)
    name = {"topic_id": talk.raw.topic_id(topic)} if version >= 13 else {"name": topic}
    data = [{**name, "partition_data": [{"index": index, "records": batch(b"v", **header)}]}]
    transactional_id = changes.pop("transactional_id", me["transactional_id"])
    return {"transactional_id": transactional_id, "acks": -1, "timeout": 10_000, "topic_data": data}


def offsets(talk: TxnTalk, me: Fields, group: str, version: int, **changes: Any) -> Fields:
    wanted = {
        "partition_index": changes.pop("index", 0),
        "committed_offset": changes.pop("offset", 7),
        "committed_leader_epoch": -1,
        "committed_metadata": changes.pop("metadata", "note"),
    }
    member = {"generation_id": -1, "member_id": "", "group_instance_id": None} if version >= 3 else {}
    topics = [{"name": changes.pop("topic", talk.topic), "partitions": [wanted]}]
    return {**me, "group_id": group, "topics": topics, **member, **changes}


def stable(group: str, talk: TxnTalk, version: int, is_stable: bool = True) -> Fields:
    topics = [{"name": talk.topic, "partition_indexes": [0]}]
    if version >= 8:
        return {
            "groups": [{"group_id": group, "member_id": None, "member_epoch": -1, "topics": topics}],
            "require_stable": is_stable,
        }
    return {"group_id": group, "topics": topics, "require_stable": is_stable}


def hold(conversation: Callable[[TxnTalk], None], host: str, port: int) -> dict[str, Any]:
    with TxnRaw(host, port) as raw:
        wait_for_coordinators(raw)
        talk = TxnTalk(raw)
        conversation(talk)
        return talk.answers


def wait_for_coordinators(raw: Raw) -> None:
    """Apache Kafka creates the topics of coordinators when it is first asked, and loads them afterwards."""
    ready: set[int] = set()
    while len(ready) < 2:
        for kind in (0, 1):
            answer = raw.ask("find_coordinator", 4, key_type=kind, coordinator_keys=[raw.token])
            if not answer["coordinators"][0]["error_code"]:
                ready.add(kind)
    raw.new_producer_id()
    while raw.ask("list_transactions", 0)["error_code"] in NOT_YET:
        time.sleep(0.05)
    while raw.ask("list_groups", 0)["error_code"] in NOT_YET:
        time.sleep(0.05)
