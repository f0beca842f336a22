"""What a workload gets: the contestant of this turn, a directory that goes away, and how much to do."""

import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench.race.apart import Load, apart
from bench.race.contestants import CONTESTANTS, Contestant
from bench.race.librdkafka import consume, produce
from bench.race.raw_load import connected, create_topics, end_offsets
from bench.race.watch import Meter

CLIENT_BOUND_CORES = 0.9
"""A client that uses this much of a core or more may be what bounds the run."""


@dataclass
class Row:
    """One line of the table, as one contestant has run it once."""

    name: str
    figures: dict[str, float]
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Workload:
    name: str
    about: str
    work: Callable[["Arena"], Iterable[Row]]
    bound: str
    """What bounds it on Ottla's side, as the code has it; holds whatever the machine does."""
    disk_gb: float = 0.5
    """At full size, at its fullest moment."""
    runs_max: int = 1_000
    absent: str = ""
    """Why it is not run, if it is not."""
    fetch: Callable[[], object] = lambda: None
    """Bring what Apache Kafka's side needs beyond Kafka; raises Missing with the reason if that cannot be had."""


@dataclass(frozen=True)
class Arena:
    contestant: str
    directory: Path
    scale: float = 1.0
    is_full: bool = False
    """Every combination, not the chosen ones."""

    def count(self, at_full_size: int, least: int = 100) -> int:
        return max(least, int(at_full_size * self.scale))

    def seconds(self, at_full_size: float, least: float = 0.3) -> float:
        return max(least, at_full_size * min(1.0, self.scale * 2))

    @contextmanager
    def resting(self, settings: Mapping[str, str] | None = None) -> Iterator[Contestant]:
        """A broker that is prepared and not launched; whatever becomes of it is over at the end."""
        root = Path(tempfile.mkdtemp(prefix=f"{self.contestant}-", dir=self.directory))
        broker = CONTESTANTS[self.contestant](root, settings)
        try:
            broker.prepare()
            yield broker
        finally:
            if broker.running:
                broker.kill()
            shutil.rmtree(root, ignore_errors=True)

    @contextmanager
    def running(self, settings: Mapping[str, str] | None = None, is_warm: bool = True) -> Iterator[Contestant]:
        """A fresh broker that has seen some load: a JVM is slow until it has compiled what it runs."""
        with self.resting(settings) as broker:
            broker.start()
            if is_warm:
                self._warm_up(broker)
            yield broker

    def _warm_up(self, broker: Contestant) -> None:
        create(broker, "warm-up", 4)
        for size in (100, 1000):
            apart(produce, broker.bootstrap, "warm-up", self.count(300_000), size, "all", "none")
        apart(consume, broker.bootstrap, "warm-up", 4, self.count(600_000, 200))


def create(broker: Contestant, topic: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
    client = connected(broker.port)
    create_topics(client, {topic: partitions}, configs)
    end_offsets(client, topic, partitions)
    client.close()


def must_hold(broker: Contestant, topic: str, partitions: int, count: int) -> None:
    """A run in which records went missing or came twice has measured nothing."""
    client = connected(broker.port)
    found = end_offsets(client, topic, partitions)
    client.close()
    if found != count:
        raise RuntimeError(f"{broker.name}: {topic} holds {found} records, {count} were sent")


def throughput(load: Load, meter: Meter, record_bytes: int) -> dict[str, float]:
    """The figures of moving records: the rate, and what a GB has cost the broker."""
    gigabytes = load.records * record_bytes / 1e9
    return {
        "MB/s": gigabytes * 1000 / load.seconds,
        "broker cpu s/GB": meter.cpu / gigabytes,
        "peak memory MB": meter.peak_mb,
        "client cores": load.client_cores,
    }
