"""Moving records: produced, consumed from the page cache and from the disk, drained while more comes in."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product

from bench.race import java_tools, librdkafka
from bench.race.apart import Apart, Load, apart
from bench.race.arena import Arena, Row, create, must_hold, throughput
from bench.race.contestants import Contestant
from bench.race.watch import Meter, drop_from_cache

COUNTS = {1000: 1_000_000, 100: 3_000_000}
"""Records per row, by their size."""
_ROWS_PER_BROKER = 4
_COLD_LEAST, _CACHED_MOST = 0.5, 0.05

Produce = Callable[[str, str, int, int, str, str], Load]
PRODUCERS: dict[str, Produce] = {"librdkafka": librdkafka.produce, "perf-test": java_tools.produce}


@dataclass(frozen=True)
class Way:
    """One combination of how records are produced."""

    client: str
    size: int
    acks: str
    partitions: int
    codec: str = "none"

    @property
    def name(self) -> str:
        size = "1 kB" if self.size == 1000 else f"{self.size} B"
        codec = "" if self.codec == "none" else f", {self.codec}"
        plural = "s" if self.partitions > 1 else ""
        return f"{size}, acks={self.acks}, {self.partitions} partition{plural}{codec}, {self.client}"

    @property
    def topic(self) -> str:
        return f"{self.client}-{self.size}-{self.acks}-{self.partitions}-{self.codec}"


CHOSEN = (
    Way("librdkafka", 1000, "all", 1),
    Way("librdkafka", 1000, "1", 1),
    Way("librdkafka", 1000, "all", 16),
    Way("librdkafka", 1000, "all", 100),
    Way("librdkafka", 100, "all", 1),
    Way("librdkafka", 100, "all", 16),
    Way("librdkafka", 1000, "all", 1, "lz4"),
    Way("librdkafka", 1000, "all", 1, "zstd"),
    Way("perf-test", 1000, "all", 1),
    Way("perf-test", 1000, "all", 100),
    Way("perf-test", 100, "all", 1),
    Way("perf-test", 1000, "all", 1, "lz4"),
)
"""Each property is changed once against the first row; acks=1 and all differ little where there are no followers."""
EVERY = tuple(Way(*one) for one in product(PRODUCERS, COUNTS, ("all", "1"), (1, 16, 100), ("none", "lz4", "zstd")))


def produce(arena: Arena, ways: tuple[Way, ...] | None = None) -> Iterator[Row]:
    ways = ways or (EVERY if arena.is_full else CHOSEN)
    for first in range(0, len(ways), _ROWS_PER_BROKER):
        with arena.running() as broker:
            for way in ways[first : first + _ROWS_PER_BROKER]:
                yield _produced(arena, broker, way)


def _produced(arena: Arena, broker: Contestant, way: Way) -> Row:
    create(broker, way.topic, way.partitions)
    count = arena.count(COUNTS[way.size])
    with Meter(broker.pid) as meter:
        load = apart(PRODUCERS[way.client], broker.bootstrap, way.topic, count, way.size, way.acks, way.codec)
    must_hold(broker, way.topic, way.partitions, count)
    return Row(way.name, throughput(load, meter, way.size))


Consume = Callable[[str, str, int, int], Load]
CONSUMERS: dict[str, Consume] = {"librdkafka": librdkafka.consume, "perf-test": java_tools.consume}
PAUSING: dict[str, Consume] = {"librdkafka that pauses": librdkafka.consume_pausing}


def consume(arena: Arena) -> Iterator[Row]:
    with arena.running() as broker:
        for size, partitions in ((1000, 1), (1000, 16), (100, 1)):
            topic, count = f"read-{size}-{partitions}", arena.count(COUNTS[size] * (2 if partitions == 1 else 1))
            create(broker, topic, partitions)
            apart(librdkafka.produce, broker.bootstrap, topic, count, size, "all", "none")
            must_hold(broker, topic, partitions, count)
            for client in CONSUMERS | (PAUSING if size == 100 else {}):
                yield _consumed(broker, client, topic, partitions, size, count)
        for client in CONSUMERS:
            yield _consumed(broker, client, "read-1000-1", 1, 1000, arena.count(2 * COUNTS[1000]), is_cold=True)


def _consumed(
    broker: Contestant, client: str, topic: str, partitions: int, size: int, count: int, is_cold: bool = False
) -> Row:
    if is_cold:
        drop_from_cache(broker.data_dir)
    with Meter(broker.pid) as meter:
        load = apart((CONSUMERS | PAUSING)[client], broker.bootstrap, topic, partitions, count)
    from_disk = meter.disk_mb * 1e6 / (load.records * size)
    notes = []
    if is_cold and from_disk < _COLD_LEAST:
        notes.append(f"not cold: only {from_disk:.0%} came from the disk")
    if not is_cold and from_disk > _CACHED_MOST:
        notes.append(f"not all cached: {from_disk:.0%} came from the disk")
    where = "cold" if is_cold else "cached"
    plural = "s" if partitions > 1 else ""
    name = f"{'1 kB' if size == 1000 else f'{size} B'}, {where}, {partitions} partition{plural}, {client}"
    return Row(name, throughput(load, meter, size), notes)


def drain_backlog(arena: Arena) -> Iterator[Row]:
    """A reader catches up with 1 GB while 20 MB/s more come in."""
    rate, count = 20_000.0, arena.count(COUNTS[1000])
    with arena.running() as broker:
        create(broker, "backlog")
        apart(librdkafka.produce, broker.bootstrap, "backlog", count, 1000, "all", "none")
        with Apart(
            librdkafka.produce_paced, broker.bootstrap, "backlog", 1000, rate, arena.seconds(30.0, 3.0)
        ) as steady:
            time.sleep(1.0)
            with Meter(broker.pid) as meter:
                load = apart(librdkafka.drain, broker.bootstrap, "backlog")
            more: Load = steady.result()
        must_hold(broker, "backlog", 1, count + more.records)
        yield Row("20 MB/s coming in meanwhile", throughput(load, meter, 1000))
