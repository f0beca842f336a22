"""Scripted conversations with a node, normalised so that two nodes' answers can be compared field by field.

`python -m tests.compat.conversations` holds them with Apache Kafka and writes its answers to tests/golden/answers.
"""

from __future__ import annotations

import json
import re
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .batches import headers
from .brokers import KafkaBroker, discard
from .raw import Raw
from .wire import Closed, Fields

ANSWERS = Path(__file__).resolve().parents[1] / "golden" / "answers"
CLOSED = "the connection was closed"
DAY_MS = 86_400_000
# Prose is nobody's contract; the others are the node's own business.
DROPPED = frozenset(
    {
        "error_message",
        "batch_index_error_message",
        "documentation",
        "session_id",
        "finalized_features_epoch",
        "listeners",
    }
)
# In the answer for a partition in error these say nothing, and Apache Kafka fills them now so, now so.
VOID_IN_ERROR = frozenset({"log_start_offset", "aborted_transactions"})
PLACEHOLDERS = {"host": "host", "port": 1, "cluster_id": "cluster", "log_dir": "dir"}
NODE_FIELDS = frozenset(
    {"node_id", "broker_id", "leader_id", "controller_id", "replica_nodes", "isr_nodes", "replica_id"}
)


# Apache Kafka answers these in the order of a hash table; where order is a promise, a test of its own holds it.
UNORDERED = frozenset({"responses", "topics", "partition_responses", "partitions", "results", "configs"})
STRANGER = uuid.UUID("5b9a7d5e-0000-4000-8000-000000000001")


class Talk:
    """Asks, and keeps the normalised answers under the names of their steps."""

    def __init__(self, raw: Raw) -> None:
        self.raw = raw
        self.answers: dict[str, Any] = {}

    def __call__(self, step: str, api: str, version: int, **fields: Any) -> Fields:
        name = f"{step} ({api} v{version})"
        assert name not in self.answers, f"two steps are called {name}"
        try:
            answer: Any = self.raw.ask(api, version, **fields)
        except Closed:
            self.raw.reconnect()
            answer = CLOSED
        self.answers[name] = self.normal(answer)
        return answer if isinstance(answer, dict) else {}

    def normal(self, value: Any, field: str = "") -> Any:
        """The value without what differs between any two nodes."""
        if isinstance(value, dict):
            dropped = DROPPED | VOID_IN_ERROR if value.get("error_code") else DROPPED
            return {key: self.normal(inner, key) for key, inner in value.items() if key not in dropped}
        if isinstance(value, list):
            items = [self.normal(item, field) for item in value]
            return sorted(items, key=json.dumps) if field in UNORDERED else items
        if field in PLACEHOLDERS and value:
            return PLACEHOLDERS[field]
        if isinstance(value, uuid.UUID):
            return "stranger" if value == STRANGER else "uuid"
        if isinstance(value, str):
            return value.replace(self.raw.token, "TOKEN")
        if isinstance(value, bytes):
            return [self._batch(header) for header in headers(value)]
        if isinstance(value, int) and not isinstance(value, bool):
            return self._number(value, field)
        return value

    def _number(self, value: int, field: str) -> Any:
        if field in NODE_FIELDS and value == self.raw.node_id:
            return "node"
        if field in ("total_bytes", "usable_bytes"):
            return value > 0
        if field == "producer_id" and value >= 0:
            return "producer"
        return "now" if abs(value - time.time() * 1000) < DAY_MS else value

    def _batch(self, header: Any) -> dict[str, Any]:
        return {key: self._number(value, key) for key, value in vars(header).items()}


Conversation = Callable[[Talk], None]


def all_conversations() -> dict[str, Conversation]:
    from . import conversations_admin, conversations_configs, conversations_data

    modules = (conversations_data, conversations_admin, conversations_configs)
    return {name[4:]: getattr(module, name) for module in modules for name in vars(module) if re.match("say_", name)}


def hold(conversation: Conversation, host: str, port: int) -> dict[str, Any]:
    with Raw(host, port) as raw:
        talk = Talk(raw)
        conversation(talk)
        return talk.answers


def differences(expected: Any, found: Any, path: str = "") -> list[str]:
    """Where two normalised answers disagree, one line each."""
    if isinstance(expected, dict) and isinstance(found, dict):
        lines = []
        for key in sorted(expected.keys() | found.keys()):
            if key not in expected or key not in found:
                lines.append(f"{path}.{key}: " + ("unexpected" if key in found else "missing"))
            else:
                lines += differences(expected[key], found[key], f"{path}.{key}")
        return lines
    if isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        return [
            line
            for at, pair in enumerate(zip(expected, found, strict=True))
            for line in differences(*pair, f"{path}[{at}]")
        ]
    return [] if expected == found else [f"{path}: Kafka says {expected!r}, we say {found!r}"]


def recorded(name: str) -> dict[str, Any]:
    answers: dict[str, Any] = json.loads((ANSWERS / f"{name}.json").read_text())
    return answers


def record() -> None:
    root = Path(tempfile.mkdtemp(prefix="answers-"))
    broker = KafkaBroker(root)
    broker.start()
    ANSWERS.mkdir(parents=True, exist_ok=True)
    try:
        for name, conversation in all_conversations().items():
            answers = hold(conversation, broker.host, broker.port)
            lines = [f"{json.dumps(step)}: {json.dumps(answer, sort_keys=True)}" for step, answer in answers.items()]
            (ANSWERS / f"{name}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
    finally:
        discard(broker)


if __name__ == "__main__":
    record()
