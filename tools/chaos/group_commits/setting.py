"""What all processes of a run know, and the diary that all of them write."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ottla.base.types import TopicName, TopicPartition
from ottla.client.addresses import parse_addresses
from ottla.client.settings import ClientSettings

SOURCE, OUTPUT = TopicName("chaos-source"), TopicName("chaos-output")
SINK, QUERY, GROUP = "chaos-sink", "chaos-query", "chaos-group"
PARTITIONS = 3
TRANSACTION_TIMEOUT_MS = 3_000

SOUND = "sound"
OFFSETS_APART = "offsets are committed apart"
ONE_BY_ONE = "members are committed one by one"
NEW_QUERY = "every driver is another query"
CRIMES = (OFFSETS_APART, ONE_BY_ONE, NEW_QUERY)
"""What a sink may do wrong, each of which the judge must find."""


@dataclass(frozen=True)
class Setting:
    bootstrap: str
    root: str
    seed: int
    crime: str = SOUND
    fates: tuple[str, ...] = ()
    """Names of those to draw from; all if none is named."""
    tasks: int = 3
    records_per_batch_max: int = 30
    """Of each partition."""

    @property
    def directory(self) -> Path:
        return Path(self.root)

    @property
    def node_killer(self) -> Path:
        return self.directory / "kill-node"

    @property
    def checkpoint(self) -> Path:
        return self.directory / "checkpoint"

    def client(self) -> ClientSettings:
        return ClientSettings(
            bootstrap=tuple(parse_addresses(self.bootstrap)),
            connect_s=2.0,
            request_s=5.0,
            patience_s=20.0,
            backoff_s=0.02,
            backoff_s_max=0.25,
        )

    def tell(self, event: str, **what: Any) -> None:
        """One write a line, so that a death tears none and several writers do not mix."""
        row = {"event": event, "at": time.monotonic(), "pid": os.getpid(), **what}
        diary = os.open(self.directory / "diary.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(diary, json.dumps(row).encode() + b"\n")
        finally:
            os.close(diary)

    def told(self) -> list[dict[str, Any]]:
        diary = self.directory / "diary.jsonl"
        return [json.loads(line) for line in diary.read_text().splitlines()] if diary.exists() else []

    def as_text(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> Setting:
        return cls(**json.loads(text))


def places(topic: TopicName) -> Iterator[TopicPartition]:
    return (TopicPartition(topic, index) for index in range(PARTITIONS))
