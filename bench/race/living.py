"""The life of a broker: start, rest, very many partitions, a crash with much data, members that join, compaction."""

import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

from bench.race import librdkafka
from bench.race.apart import Load, Stopwatch, apart
from bench.race.arena import Arena, Row, create, must_hold
from bench.race.contestants import Contestant
from bench.race.raw_load import connected, create_topics, produce_everywhere
from bench.race.watch import Meter, memory_mb

_FIRST = {"first": 1}
_TOPICS_OF_MANY = 100
_COMPACTION_SECONDS_MAX = 180.0
_QUIET_SECONDS = 5.0
"""So long no file of a compacted topic must change before it counts as done."""


def _acknowledged(broker: Contestant, topics: dict[str, int]) -> float:
    """The moment at which every partition has acknowledged a record."""
    broker.wait_until_it_listens(0.002)
    client = connected(broker.port)
    create_topics(client, topics, pause_seconds=0.005)
    produce_everywhere(client, topics, pause_seconds=0.005)
    moment = time.monotonic()
    client.close()
    return moment


def start(arena: Arena) -> Iterator[Row]:
    with arena.resting() as broker:
        begun = broker.launch()
        first_ack = _acknowledged(broker, _FIRST) - begun
        time.sleep(arena.seconds(3.0))
        with Meter(broker.pid) as meter:
            time.sleep(arena.seconds(10.0, 1.0))
        figures = {
            "first ack s": first_ack,
            "idle memory MB": memory_mb(broker.pid),
            "idle cpu %": meter.cpu / meter.seconds * 100,
        }
        yield Row("an empty data directory", figures)


def many_partitions(arena: Arena) -> Iterator[Row]:
    each = max(1, arena.count(10_000) // _TOPICS_OF_MANY)
    topics = {f"many-{number:03}": each for number in range(_TOPICS_OF_MANY)}
    with arena.running(is_warm=False) as broker:
        begun = time.monotonic()
        created = _acknowledged(broker, topics) - begun
        time.sleep(arena.seconds(10.0))
        with Meter(broker.pid) as idle:
            time.sleep(arena.seconds(10.0, 1.0))
        resting_mb = memory_mb(broker.pid)
        stopping = time.monotonic()
        broker.stop_and_wait()
        stopped = time.monotonic() - stopping
        begun = broker.launch()
        restarted = _acknowledged(broker, topics) - begun
        figures = {
            "creation s": created,
            "idle cpu %": idle.cpu / idle.seconds * 100,
            "memory MB": resting_mb,
            "stop s": stopped,
            "restart s": restarted,
        }
        yield Row("created, at rest, stopped and started again", figures)


def restart_after_kill(arena: Arena, partitions: int = 100) -> Iterator[Row]:
    """Data that nobody has flushed, and a process that is gone from one moment to the next."""
    topics, count = {"much": partitions}, arena.count(5_000_000)
    with arena.running(is_warm=False) as broker:
        create(broker, "much", partitions)
        apart(librdkafka.produce, broker.bootstrap, "much", count, 1000, "all", "none")
        broker.kill()
        begun = broker.launch()
        figures = {"restart after kill s": _acknowledged(broker, topics) - begun}
        must_hold(broker, "much", partitions, count + partitions)
        yield Row(f"{count / 1e6:g} GB in {partitions} partitions", figures)


def group_joins(arena: Arena, members: int = 50, partitions: int = 100) -> Iterator[Row]:
    members = min(members, arena.count(members, 5))
    with arena.running() as broker:
        create(broker, "work", partitions)
        for protocol in ("classic", "consumer"):
            apart(librdkafka.join_together, broker.bootstrap, "work", partitions, 2, protocol)
            with Meter(broker.pid) as meter:
                load: Load = apart(librdkafka.join_together, broker.bootstrap, "work", partitions, members, protocol)
            figures = {"joined s": load.seconds, "broker cpu s": meter.cpu}
            yield Row(f"{members} members, protocol {protocol}, librdkafka", figures)


def compaction(arena: Arena) -> Iterator[Row]:
    """From the moment at which the records may be compacted to the last change of the topic's files."""
    configs = {"cleanup.policy": "compact", "segment.bytes": str(max(1 << 20, int(64e6 * arena.scale)))}
    configs |= {"min.cleanable.dirty.ratio": "0.01", "min.compaction.lag.ms": str(3_600_000)}
    count, keys = arena.count(1_000_000, 4_000), arena.count(100_000, 400)
    # One cleaner round is due every 15 s by default; waiting for it would be most of what is measured.
    with arena.running({"log.cleaner.backoff.ms": "100"}) as broker:
        create(broker, "compacted", 1, configs)
        apart(produce_keyed, broker.bootstrap, "compacted", count, keys)
        must_hold(broker, "compacted", 1, count)
        folder = broker.partition_dir("compacted")
        before_mb = _log_mb(folder)
        with Meter(broker.pid) as meter:
            apart(allow_compaction, broker.bootstrap, "compacted")
            seconds = _until_quiet(folder)
        after_mb = _log_mb(folder)
        figures = {"MB/s": before_mb / seconds, "broker cpu s/GB": meter.cpu / before_mb * 1000}
        figures |= {"peak memory MB": meter.peak_mb}
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


def _until_quiet(folder: Path) -> float:
    """Seconds until the last change; the wait for quiet behind it does not count."""
    begun = changed = time.monotonic()
    first = state = _state(folder)
    while (now := time.monotonic()) - begun < _COMPACTION_SECONDS_MAX:
        if (seen := _state(folder)) != state:
            state, changed = seen, now
        elif state != first and now - changed > _QUIET_SECONDS:
            break
        time.sleep(0.02)
    if state == first:
        raise RuntimeError("nothing was compacted")
    return changed - begun


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


def allow_compaction(bootstrap: str, topic: str) -> None:
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
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(30)
