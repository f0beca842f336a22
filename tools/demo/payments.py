"""What the whole demonstration is about: numbered payments in a topic, how to read a topic, and what proof means."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

TOPIC = "to-delta-payments"
"""As the example's pipeline calls it, which runs here, too."""
PARTITIONS = 3
PAYMENTS = 300_000
WAIT_SECONDS_MAX = 60.0
QUIET: dict[str, Any] = {"log_level": 0, "error_cb": lambda _: None}
"""The lost connection is what this is about; the client library need not tell us."""


class NotProven(Exception):
    """A promise that did not come true."""


def say(what: str) -> None:
    print(what, flush=True)


def prove(claim: str, actual: object, expected: object) -> None:
    if actual != expected:
        raise NotProven(f"{claim}: expected {expected!r}, found {actual!r}")
    say(f"   ✔ {claim}")


def cents_of(number: int) -> int:
    """What payment `number` is about: any rule that both sides can compute."""
    return number * 7919 % 100_000


def read_all(bootstrap: str, topic: str, partitions: int) -> Iterator[Message]:
    """What a reader of committed data finds in the topic, up to its end."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "demo",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            **QUIET,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    at_end = 0
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while at_end < partitions and time.monotonic() < deadline:
        for message in consumer.consume(1000, 1.0):
            if (error := message.error()) is None:
                yield message
            else:
                at_end += error.code() == KafkaError._PARTITION_EOF
    consumer.close()
