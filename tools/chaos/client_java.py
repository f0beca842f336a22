"""Apache Kafka's Java client, in a process of its own that does what this one says. It speaks the second protocol.

Its jars are no part of this project: whoever wants it says where they are, and javac has to be there.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
from pathlib import Path
from typing import Any

from tools.chaos.client_port import (
    CALL_SECONDS_MAX,
    POLL_SECONDS_MAX,
    REQUEST_SECONDS_MAX,
    SEND_SECONDS_MAX,
    SESSION_SECONDS,
    TRANSACTION_SECONDS_MAX,
    Ack,
    ClientBroken,
    Posted,
    Received,
    Settings,
    TransactionFailed,
    refused,
)
from tools.chaos.history import Key, Outcome
from tools.chaos.payload import split_key

CLASSPATH = "OTTLA_CHAOS_CLASSPATH"
"""The environment variable that says where the jars and the compiled client are."""
SOURCE = Path(__file__).with_name("java") / "ChaosClient.java"
COMPILE_SECONDS_MAX = 120


def compile_client(jars: Path, classes: Path) -> str:
    """The class path, to be put into the environment."""
    compiled = classes / "ChaosClient.class"
    if not compiled.exists() or compiled.stat().st_mtime < SOURCE.stat().st_mtime:
        command = ["javac", "-cp", f"{jars}/*", "-d", str(classes), str(SOURCE)]
        subprocess.run(command, check=True, timeout=COMPILE_SECONDS_MAX)
    return f"{classes}:{jars}/*"


class JavaClient:
    is_lost_by_failures = False

    def __init__(self, settings: Settings) -> None:
        self.rebalanced: set[Key] = set()
        flags = ["-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", os.environ[CLASSPATH]]
        self._process = subprocess.Popen(
            ["java", *flags, "ChaosClient", json.dumps(_configuration(settings))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        answer = self._receive()
        if "error" in answer:
            raise ClientBroken(answer["error"])

    def close(self) -> None:
        """As sudden as a crash."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def _receive(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise ClientBroken("the Java process has died")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _ask(self, call: str, **what: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"call": call, **what}) + "\n")
        self._process.stdin.flush()
        return self._receive()

    def _do(self, call: str, **what: Any) -> dict[str, Any]:
        answer = self._ask(call, **what)
        if "error" in answer:
            raise ClientBroken(answer["error"])
        return answer

    def send(self, records: list[tuple[Key, bytes]]) -> list[Ack]:
        return self.post(records)()

    def post(self, records: list[tuple[Key, bytes]]) -> Posted:
        rows = [[*split_key(key), base64.b64encode(data).decode()] for key, data in records]
        ticket = self._transact("post", records=rows)["ticket"]
        return lambda: self._collect(ticket)

    def _collect(self, ticket: int) -> list[Ack]:
        acks = self._do("collect", ticket=ticket)["acks"]
        return [refused(error) if error else Ack(Outcome.OK, offset if offset >= 0 else None) for offset, error in acks]

    def assign(self, positions: dict[Key, int]) -> None:
        self._do("assign", positions=_rows(positions))

    def subscribe(self, topics: list[str]) -> None:
        self._do("subscribe", topics=topics)

    def poll(self, seconds: float, records_max: int) -> list[Received]:
        """How many records at most is a setting of this library."""
        answer = self._do("poll", ms=int(seconds * 1000))
        self.rebalanced.update(f"{topic}/{partition}" for topic, partition in answer["rebalanced"])
        return [
            Received(f"{topic}/{partition}", offset, None if value is None else base64.b64decode(value))
            for topic, partition, offset, value in answer["records"]
        ]

    def seek(self, positions: dict[Key, int]) -> None:
        self._do("seek", positions=_rows(positions))

    def commit(self) -> None:
        self._do("commit")

    def committed(self, keys: list[Key]) -> dict[Key, int]:
        found = self._do("committed", keys=[split_key(key) for key in keys])["offsets"] if keys else []
        return {f"{topic}/{partition}": offset for topic, partition, offset in found}

    # --- transactions

    def begin(self) -> None:
        self._transact("begin")

    def send_offsets(self, offsets: dict[Key, int]) -> None:
        self._transact("send_offsets", positions=_rows(offsets))

    def end(self, commits: bool) -> None:
        self._transact("end", commits=commits)

    def _transact(self, call: str, **what: Any) -> dict[str, Any]:
        answer = self._ask(call, **what)
        if "error" in answer:
            raise TransactionFailed(answer["error"], answer["is_fatal"])
        return answer


def _rows(positions: dict[Key, int]) -> list[list[Any]]:
    return [[*split_key(key), offset] for key, offset in positions.items()]


def _configuration(settings: Settings) -> dict[str, Any]:
    return {
        "call_ms": int(CALL_SECONDS_MAX * 1000),
        "send_ms": int((SEND_SECONDS_MAX + 2) * 1000),
        "producer": _producing(settings),
        "consumer": _consuming(settings),
    }


def _producing(settings: Settings) -> dict[str, Any]:
    chosen: dict[str, Any] = {
        "bootstrap.servers": settings.bootstrap,
        "acks": "all" if settings.is_safe else "1",
        "enable.idempotence": settings.is_safe,
        "delivery.timeout.ms": int(SEND_SECONDS_MAX * 1000),
        "request.timeout.ms": int(REQUEST_SECONDS_MAX * 1000),
        "max.block.ms": 2000,
        "compression.type": settings.compression,
        "linger.ms": settings.linger_ms,
        "reconnect.backoff.max.ms": 500,
    }
    if settings.transactional_id:
        chosen |= {
            "transactional.id": settings.transactional_id,
            "transaction.timeout.ms": int(TRANSACTION_SECONDS_MAX * 1000),
            "delivery.timeout.ms": int(CALL_SECONDS_MAX * 1000),
        }
    return chosen


def _consuming(settings: Settings) -> dict[str, Any]:
    chosen: dict[str, Any] = {
        "bootstrap.servers": settings.bootstrap,
        "group.id": settings.group,
        "group.protocol": settings.protocol,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
        "max.poll.interval.ms": int(POLL_SECONDS_MAX * 1000),
        "max.poll.records": 30,
        "fetch.max.wait.ms": 200,
        "reconnect.backoff.max.ms": 500,
    }
    if settings.protocol == "classic":
        chosen |= {"session.timeout.ms": int(SESSION_SECONDS * 1000), "heartbeat.interval.ms": 500}
        chosen["partition.assignment.strategy"] = "org.apache.kafka.clients.consumer.RangeAssignor"
    return chosen
