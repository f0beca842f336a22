"""End-to-end latency under a load that does not wait for anybody.

Records are due at fixed moments, and each carries the moment at which it was due. If sending one takes long, the next
are late, and that lateness is in their latency: nothing is left out because the system was slow (coordinated omission).
Sender and receiver are two processes of one machine; both read the same monotonic clock.
"""

import time
from dataclasses import dataclass
from struct import Struct
from typing import Any

from bench.race.apart import Load, Stopwatch
from bench.race.librdkafka import _finish, _producer, _reader, _send

_DUE = Struct(">q")
_SILENCE_SECONDS_MAX = 60.0
MICROSECOND, MILLISECOND = 1_000, 1_000_000


@dataclass(frozen=True)
class Schedule:
    """`count` records from `begin_ns` on; the first `warm_up` of them are sent and not counted."""

    begin_ns: int
    rate: float
    count: int
    warm_up: int

    def due_ns(self, number: int) -> int:
        return self.begin_ns + int(number * 1e9 / self.rate)


def send(bootstrap: str, topic: str, size: int, schedule: Schedule) -> Load:
    producer = _producer(bootstrap, acks="all", linger_ms=0)
    producer.list_topics(topic, timeout=30)
    failures: list[object] = []
    padding = bytes(size - _DUE.size)
    late: list[int] = []
    watch = Stopwatch()
    for number in range(schedule.count):
        due = schedule.due_ns(number)
        while (early := due - time.monotonic_ns()) > 0:
            producer.poll(0)
            time.sleep(min(early / 1e9, 0.05))
        _send(producer, topic, _DUE.pack(due) + padding, failures)
        late.append(time.monotonic_ns() - due)
    _finish([producer], failures)
    return watch.load(schedule.count, late_p99=percentile(sorted(late[schedule.warm_up :]), 99) / MILLISECOND)


def receive(bootstrap: str, topic: str, schedule: Schedule) -> Load:
    consumer: Any = _reader(bootstrap, topic, 1)
    latencies: list[int] = []
    watch, seen, heard = Stopwatch(), 0, time.monotonic()
    while seen < schedule.count:
        message = consumer.poll(1.0)
        if message is None:
            if time.monotonic() - heard > _SILENCE_SECONDS_MAX:
                raise RuntimeError(f"{seen} of {schedule.count} records came before the silence")
            continue
        if message.error():
            raise RuntimeError(str(message.error()))
        now = time.monotonic_ns()
        heard = now / 1e9
        if seen >= schedule.warm_up:
            latencies.append(now - _DUE.unpack_from(message.value())[0])
        seen += 1
    load = watch.load(seen)
    consumer.close()
    latencies.sort()
    load.figures = {f"p{rank:g}": percentile(latencies, rank) / MILLISECOND for rank in (50, 99, 99.9)}
    return load


def percentile(ordered: list[int], rank: float) -> float:
    """The least value that is not exceeded by `rank` percent of them (nearest rank)."""
    return float(ordered[max(0, -int(-len(ordered) * rank // 100) - 1)])
