"""The two ends of a pipeline that is timed: records that are due at fixed moments, and when each of them came out.

As in the race, lateness of the sender is part of the latency: nothing is left out because the system was slow. All
processes run on one machine and read the same monotonic clock. A value says when it was due, so that what it goes
through may be anything that keeps the beginning of its text.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.race.open_loop import MILLISECOND, Schedule, percentile

RANKS = (50, 90, 99, 100)
_DIGITS = 20
_TICK_SECONDS = 0.001
"""What is due within one goes out together: a process that woke for each record would take a core of its own."""
_SILENCE_SECONDS_MAX = 60.0
_BATCH_RECORDS = 500
FIRST = 0
"""The due time of a record that only shows that the way is open."""


@dataclass
class Arrivals:
    """What one reader has seen of the records that count."""

    latencies_ns: list[int] = field(default_factory=list)

    def figures(self) -> dict[str, float]:
        ordered = sorted(self.latencies_ns)
        return {f"p{rank}" if rank < 100 else "max": percentile(ordered, rank) / MILLISECOND for rank in RANKS}


def value_of(due_ns: int, size: int) -> bytes:
    return str(due_ns).zfill(_DIGITS).ljust(size, ".").encode()


def due_of(value: bytes) -> int:
    return int(value[:_DIGITS])


def send_first(bootstrap: str, topic: str, size: int) -> None:
    producer = _producer(bootstrap)
    producer.produce(topic, value_of(FIRST, size))
    producer.flush(60)


def send(bootstrap: str, topic: str, size: int, schedule: Schedule) -> float:
    """All records at their times; how late the sender itself was, 99 of 100 records, in milliseconds."""
    producer = _producer(bootstrap)
    producer.list_topics(topic, timeout=30)
    late: list[int] = []
    number = 0
    while number < schedule.count:
        now = time.monotonic_ns()
        while number < schedule.count and (due := schedule.due_ns(number)) <= now:
            producer.produce(topic, value_of(due, size))
            late.append(now - due)
            number += 1
        producer.poll(0)
        time.sleep(_TICK_SECONDS)
    if producer.flush(60):
        raise RuntimeError("records were still under way after the flush")
    return percentile(sorted(late[schedule.warm_up :]), 99) / MILLISECOND


def receive(bootstrap: str, topic: str, isolation: str, schedule: Schedule) -> Arrivals:
    """How long the records took that count. More come than were sent where readers see what is repeated."""
    consumer, arrivals = _consumer(bootstrap, topic, isolation), Arrivals()
    from_ns = schedule.due_ns(schedule.warm_up)
    last_ns, heard = schedule.due_ns(schedule.count - 1), time.monotonic()
    wanted = schedule.count - schedule.warm_up
    while len(arrivals.latencies_ns) < wanted:
        messages = consumer.consume(_BATCH_RECORDS, timeout=_TICK_SECONDS)
        now = time.monotonic_ns()
        for message in messages:
            heard = now / 1e9
            if (due := due_of(message.value())) >= from_ns:
                arrivals.latencies_ns.append(now - due)
        if now > last_ns and now / 1e9 - heard > _SILENCE_SECONDS_MAX:
            raise RuntimeError(f"{len(arrivals.latencies_ns)} of {wanted} records came to {topic} before the silence")
    consumer.close()
    return arrivals


def wait_for_first(bootstrap: str, topic: str, seconds: float, failed: Path) -> None:
    """Until something comes out; `failed` is a file that appears if nothing ever will."""
    consumer, until = _consumer(bootstrap, topic, "read_committed"), time.monotonic() + seconds
    while not consumer.consume(1, timeout=0.2):
        if failed.exists():
            raise RuntimeError(f"the pipeline does not run: {failed.read_text()}")
        if time.monotonic() > until:
            raise RuntimeError(f"nothing has come out of the pipeline within {seconds:.0f} s")
    consumer.close()


def _producer(bootstrap: str) -> Any:
    from confluent_kafka import Producer

    settings: Mapping[str, Any] = {
        "bootstrap.servers": bootstrap,
        "acks": "all",
        "linger.ms": 0,
        "queue.buffering.max.messages": 1_000_000,
    }
    return Producer(dict(settings))


def _consumer(bootstrap: str, topic: str, isolation: str) -> Any:
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "bench",
            "enable.auto.commit": False,
            "isolation.level": isolation,
            # What is due within a millisecond should not wait for more.
            "fetch.wait.max.ms": 100,
        }
    )
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    return consumer
