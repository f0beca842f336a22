"""What only a whole node shows: memory, open files, starting and stopping with many partitions, connections.

Starting is counted in processor time, which a busy machine does not change much; stopping waits for the disk.
"""

import socket
import tempfile
import time
from pathlib import Path

from bench.node import NodeProcess
from bench.race.raw_load import connected, create_topics, produce_everywhere
from ottla.storage.files import _descriptors_to_use

FEW, MANY = 1_000, 4_000
"""The plan is made from the few; the many show whether it is right."""
_TOPICS = 100
_CONNECTIONS = 500
_REST_SECONDS = 4.0
Figures = dict[str, float]


def partitions(count: int) -> Figures:
    """A node with one record in each of so many partitions, at rest, stopped, and started again."""
    topics = {f"many-{number:03}": max(count // _TOPICS, 1) for number in range(_TOPICS if count >= _TOPICS else count)}
    with tempfile.TemporaryDirectory(prefix="ottla-plan-") as directory:
        node = NodeProcess(Path(directory))
        node.launch()
        try:
            node.wait_until_it_listens()
            client = connected(node.port)
            create_topics(client, topics)
            produce_everywhere(client, topics)
            client.close()
            time.sleep(1.0)
            before = node.cpu_seconds
            time.sleep(_REST_SECONDS)
            found = {
                "memory_mb": node.memory_mb,
                "files": float(sum(1 for _ in Path(f"/proc/{node._process.pid}/fd").iterdir())),
                "idle_cpu_percent": (node.cpu_seconds - before) / _REST_SECONDS * 100,
            }
            begun = time.monotonic()
            node.stop()
            found["stop_s"] = time.monotonic() - begun
            node.launch()
            node.wait_until_it_listens()
            client = connected(node.port)
            produce_everywhere(client, topics, pause_seconds=0.02)
            # The node does nothing else meanwhile: where the machine is its own, this is the time it takes.
            found["restart_s"] = node.cpu_seconds
            client.close()
            if count == 1:
                found["connection_kb"] = _connection_kb(node)
        finally:
            node.kill()
    return found


def _connection_kb(node: NodeProcess) -> float:
    before = node.memory_mb
    lines = [socket.create_connection(("127.0.0.1", node.port), timeout=30) for _ in range(_CONNECTIONS)]
    time.sleep(0.5)
    grown = node.memory_mb - before
    for line in lines:
        line.close()
    return grown / _CONNECTIONS * 1024


def everything() -> Figures:
    """What the plan reckons with, from one partition and few; and what was found with many, to hold it against."""
    one, few, many = partitions(1), partitions(FEW), partitions(MANY)
    slope = {name: (few[name] - one[name]) / (FEW - 1) for name in few}
    return {
        "partition_kb": slope["memory_mb"] * 1e3,
        "partition_files": slope["files"],
        "restart_partition_ms": slope["restart_s"] * 1e3,
        "stop_partition_ms": slope["stop_s"] * 1e3,
        "idle_partition_percent": slope["idle_cpu_percent"],
        "restart_s": one["restart_s"],
        "stop_s": one["stop_s"],
        "one_mb": one["memory_mb"],
        "files_max": float(_descriptors_to_use()),
        "connection_kb": max(one["connection_kb"], 0.0),
        "many_restart_s": many["restart_s"],
        "many_stop_s": many["stop_s"],
        "many_mb": many["memory_mb"],
        "many_files": many["files"],
        "many_idle_percent": many["idle_cpu_percent"],
    }
