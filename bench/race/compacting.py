"""Compaction: how fast it is, what it costs, and how long producers of other topics wait meanwhile."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

from bench.race import librdkafka
from bench.race.apart import Load, Stopwatch, apart
from bench.race.arena import Arena, Row, create, must_hold
from bench.race.watch import Meter
from bench.rawclient import RawClient, produce_frame

_SECONDS_MAX = 180.0
_QUIET_SECONDS = 5.0
"""So long no file of a compacted topic must change before it counts as done."""
_PAUSE_SECONDS = 0.004
"""From one record beside the compaction to the next."""


def compaction(arena: Arena) -> Iterator[Row]:
    """From the moment at which the records may be compacted to the last change of the topic's files."""
    configs = {"cleanup.policy": "compact", "segment.bytes": str(max(1 << 20, int(64e6 * arena.scale)))}
    configs |= {"min.cleanable.dirty.ratio": "0.01", "min.compaction.lag.ms": str(3_600_000)}
    count, keys = arena.count(1_000_000, 4_000), arena.count(100_000, 400)
    # One cleaner round is due every 15 s by default; waiting for it would be most of what is measured.
    with arena.running({"log.cleaner.backoff.ms": "100"}) as broker:
        create(broker, "compacted", 1, configs)
        create(broker, "beside")
        apart(produce_keyed, broker.bootstrap, "compacted", count, keys)
        must_hold(broker, "compacted", 1, count)
        folder = broker.partition_dir("compacted")
        before, before_mb = _state(folder), _log_mb(folder)
        with Meter(broker.pid) as meter, _Neighbour(broker.port, "beside") as neighbour:
            begun = apart(allow_compaction, broker.bootstrap, "compacted")
            ended = _last_change(folder, before, begun)
        after_mb = _log_mb(folder)
        figures = {"MB/s": before_mb / (ended - begun), "broker cpu s/GB": meter.cpu / before_mb * 1000}
        figures |= {"peak memory MB": meter.peak_mb, "produce p99 ms": neighbour.p99_ms(begun, ended)}
        notes = [] if after_mb < before_mb / 2 else [f"{before_mb:.0f} MB became {after_mb:.0f} MB only"]
        yield Row(f"{count:,} records of 1 kB on {keys:,} keys", figures, notes)


def _log_mb(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.glob("*.log")) / 1e6


def _state(folder: Path) -> frozenset[tuple[str, int, int]]:
    found = set()
    for path in folder.iterdir():
        try:
            status = path.stat()
        except FileNotFoundError:
            continue
        if ".log" in path.name and not path.name.endswith(".deleted"):
            found.add((path.name, status.st_size, status.st_ino))
    return frozenset(found)


def _last_change(folder: Path, first: frozenset[tuple[str, int, int]], begun: float) -> float:
    """The moment of the last change; the wait for quiet behind it does not count."""
    changed, state = begun, first
    while (now := time.monotonic()) - begun < _SECONDS_MAX:
        if (seen := _state(folder)) != state:
            state, changed = seen, now
        elif state != first and now - changed > _QUIET_SECONDS:
            break
        time.sleep(0.02)
    if state == first:
        raise RuntimeError("nothing was compacted")
    return changed


class _Neighbour:
    """A producer of one record every few milliseconds, whose answers the broker's other work may delay."""

    def __init__(self, port: int, topic: str) -> None:
        self._client = RawClient(port)
        self._frame = produce_frame(topic, b"x" * 100, int(time.time() * 1000))
        self._is_over = threading.Event()
        self._answered: list[tuple[float, float]] = []
        """When a record was due, and how much later it was acknowledged."""
        self._thread = threading.Thread(target=self._produce)

    def _produce(self) -> None:
        due = time.monotonic()
        while not self._is_over.wait(max(0.0, due - time.monotonic())):
            if code := self._client.produce(self._frame):
                raise RuntimeError(f"a record beside the compaction is refused: {code}")
            self._answered.append((due, time.monotonic() - due))
            due += _PAUSE_SECONDS

    def p99_ms(self, begun: float, ended: float) -> float:
        """From the moment at which a record was due, of those that were due meanwhile."""
        late = sorted(delay for due, delay in self._answered if begun <= due <= ended)
        if not late:
            raise RuntimeError("no record was acknowledged beside the compaction")
        return late[int(0.99 * (len(late) - 1))] * 1000

    def __enter__(self) -> "_Neighbour":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()
        self._client.close()


def produce_keyed(bootstrap: str, topic: str, count: int, keys: int) -> Load:
    producer = librdkafka._producer(bootstrap, acks="all", linger_ms=5)
    failures: list[object] = []
    choose, pool = Random(1), librdkafka.values(1000)
    watch = Stopwatch()
    for number in range(count):
        key = b"key-%08d" % choose.randrange(keys)
        librdkafka._send(producer, topic, pool[number % len(pool)], failures, key=key)
        if number % 1000 == 0:
            producer.poll(0)
    librdkafka._finish([producer], failures)
    return watch.load(count)


def allow_compaction(bootstrap: str, topic: str) -> float:
    """The moment at which it was asked for."""
    from confluent_kafka.admin import (
        AdminClient,
        AlterConfigOpType,
        ConfigEntry,
        ConfigResource,
        ResourceType,
    )

    entry = ConfigEntry("min.compaction.lag.ms", "0", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.list_topics(timeout=30)
    begun = time.monotonic()
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(30)
    return begun
