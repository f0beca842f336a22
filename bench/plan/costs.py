"""What the plan reckons with: figures that were measured, each with the place it was taken from.

They are kept in `bench/plan/costs.json`, so that the plan says the same on every machine until somebody measures anew.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from bench.race.result import OURS, Result, load

COSTS = Path(__file__).with_name("costs.json")
ALONE = Path(__file__).parents[1] / "result.json"

FROM_BENCH = {
    "produce_s_per_gb": "produce cpu s/GB",
    "consume_s_per_gb": "consume cpu s/GB",
    "pipelined_us": "pipelined cpu us/request",
    "single_us": "single cpu us/request",
    "fsynced_per_s": "fsynced acks/s, 1 producers",
    "idle_mb": "idle memory MB",
    "pipelined_per_s": "pipelined requests/s",
    "produced_mb_per_s": "produce MB/s",
    "fsynced_50_per_s": "fsynced acks/s, 50 producers",
    "groups_loaded_s": "10000 groups: load s",
    "joined_200_s": "200 members: assigned after s",
    "joined_200_cpu_s": "200 members: cpu s",
}
"""Our name, and the figure of `bench/result.json`."""
FROM_RACE = {
    "produce_s_per_gb": ("produce", "1 kB, acks=all, 1 partition, librdkafka", "broker cpu s/GB"),
    "consume_s_per_gb": ("consume", "1 kB, cached, 1 partition, librdkafka", "broker cpu s/GB"),
    "pipelined_us": ("one-record requests", "1 client, 16 under way each, plain sockets", "broker cpu us/request"),
    "single_us": ("one-record requests", "1 client, 1 under way each, plain sockets", "broker cpu us/request"),
    "fsynced_per_s": ("fsync per ack", "1 producer", "acks/s"),
    "idle_mb": ("start", "an empty data directory", "idle memory MB"),
    "pipelined_per_s": ("one-record requests", "1 client, 16 under way each, plain sockets", "requests/s"),
    "produced_mb_per_s": ("produce", "1 kB, acks=all, 1 partition, librdkafka", "MB/s"),
    "fsynced_50_per_s": ("fsync per ack", "50 producers", "acks/s"),
    "raced_restart_s": ("10,000 partitions", "created, at rest, stopped and started again", "restart s"),
    "raced_stop_s": ("10,000 partitions", "created, at rest, stopped and started again", "stop s"),
    "raced_mb": ("10,000 partitions", "created, at rest, stopped and started again", "memory MB"),
    "joined_classic_s": ("group of 50", "50 members, protocol classic, librdkafka", "joined s"),
    "joined_consumer_s": ("group of 50", "50 members, protocol consumer, librdkafka", "joined s"),
}
"""Preferred where `bench/race.json` has the row: workload, row, measure."""
MEANINGS = {
    "produce_s_per_gb": ("s/GB", "processor time of a node for what is produced, 1 MB batches"),
    "consume_s_per_gb": ("s/GB", "processor time of a node for what is consumed"),
    "pipelined_us": ("µs", "a Produce of one record, sixteen under way"),
    "single_us": ("µs", "a Produce of one record, alone on its connection"),
    "fetch_us": ("µs", "a Fetch of one partition"),
    "fetch_partition_us": ("µs", "each further partition that a Fetch names, nothing found"),
    "follow_partition_us": ("µs", "the same at the asker: written, and its answer read"),
    "follower_batch_us": ("µs", "a batch appended by a follower"),
    "fsynced_per_s": ("1/s", "records of one producer that waits for the disk each time"),
    "scan_us": ("µs", "a partition looked at when a broker is lost"),
    "decide_us": ("µs", "a partition whose replicas change, decided"),
    "encode_us": ("µs", "its record encoded"),
    "apply_us": ("µs", "its record applied to the controller's own image"),
    "follow_change_us": ("µs", "its record decoded and applied by any node"),
    "change_bytes": ("B", "its record in the metadata log"),
    "lead_us": ("µs", "a partition led anew by its node"),
    "snapshot_partition_bytes": ("B", "a partition in a snapshot of the metadata"),
    "snapshot_load_us": ("µs", "a partition from the snapshot into the image"),
    "image_partition_bytes": ("B", "a partition in the image, in memory"),
    "copy_us": ("µs", "a partition when the image is copied"),
    "metadata_partition_bytes": ("B", "a partition in an answer to Metadata"),
    "metadata_partition_us": ("µs", "the same, its answer made"),
    "idle_mb": ("MB", "a node at rest"),
    "partition_kb": ("kB", "a hosted partition, in memory"),
    "partition_files": ("", "a hosted partition, open files"),
    "restart_partition_ms": ("ms", "a hosted partition, at a start after a clean stop"),
    "stop_partition_ms": ("ms", "a hosted partition, at a clean stop"),
    "connection_kb": ("kB", "a connection at rest, without the kernel's part"),
    "group_load_us": ("µs", "a committed offset, loaded by its coordinator"),
    "group_call_us": ("µs", "a heartbeat of the consumer protocol, decided"),
    "group_record_us": ("µs", "a record of a rebalance, decided and applied"),
}
"""Unit, and what it is; in the order in which a reader wants them."""


@dataclass(frozen=True)
class Cost:
    value: float
    source: str


class Costs:
    """`costs["decide_us"]`: a figure by its name; the last part of the name is its unit."""

    def __init__(self, taken: Mapping[str, Cost], measured: str = "") -> None:
        self._taken = dict(taken)
        self.measured = measured
        """When and where what is measured by the plan itself was measured."""

    def __getitem__(self, name: str) -> float:
        return self._taken[name].value

    def __contains__(self, name: str) -> bool:
        return name in self._taken

    def source(self, name: str) -> str:
        return self._taken[name].source

    def items(self) -> list[tuple[str, Cost]]:
        return list(self._taken.items())

    def with_published(self, alone: Path = ALONE, race: Result | None = None) -> "Costs":
        """The same, with what the benchmarks have published since."""
        figures = json.loads(alone.read_text(encoding="utf-8"))["figures"]
        taken = dict(self._taken)
        for name, figure in FROM_BENCH.items():
            if figure in figures:
                taken[name] = Cost(figures[figure]["median"], f"bench/result.json: {figure}")
        for name, place in FROM_RACE.items() if race is not None else ():
            runs = race.figures.get(place, {}).get(OURS) if race is not None else None
            if runs:
                taken[name] = Cost(median(runs), f"bench/race.json: {', '.join(place)}")
        return Costs(taken, self.measured)

    def with_measured(self, found: Mapping[str, float], measured: str) -> "Costs":
        taken = dict(self._taken)
        taken |= {name: Cost(float(f"{value:.4g}"), "python -m bench.plan --measure") for name, value in found.items()}
        return Costs(taken, measured)

    def scaled(self, times: float) -> "Costs":
        """As if the processor took so many times as long for everything."""
        units = ("_us", "_s_per_gb", "_ms")
        taken = {
            name: Cost(one.value * times, one.source) if name.endswith(units) else one
            for name, one in self._taken.items()
        }
        return Costs(taken, self.measured)

    def to_json(self) -> str:
        costs = {name: {"value": one.value, "source": one.source} for name, one in sorted(self._taken.items())}
        return json.dumps({"measured": self.measured, "costs": costs}, indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> "Costs":
        whole: dict[str, Any] = json.loads(text)
        taken = {name: Cost(one["value"], one["source"]) for name, one in whole["costs"].items()}
        return cls(taken, whole["measured"])


def read(path: Path = COSTS) -> Costs:
    return Costs.from_json(path.read_text(encoding="utf-8")) if path.exists() else Costs({})


def renewed(path: Path = COSTS) -> Costs:
    """What is kept, with the figures that have been published since."""
    return read(path).with_published(race=load())
