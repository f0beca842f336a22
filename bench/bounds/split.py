"""How a node's processor time divides between its own code and the kernel's, workload by workload.

Its own is Python with the libraries below it (the CRC among them); the kernel's are the system calls, copies of bytes
between sockets and page cache, and putting the process to sleep and waking it.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path

from bench.node import TICKS, NodeProcess, running
from bench.page import table
from bench.race.table import number
from bench.rawclient import RawClient, produce_frame
from bench.workloads import RECORD_BYTES, consume_with_librdkafka, in_process, produce_with_librdkafka

GIGABYTES = 0.5
REQUESTS = 30_000
Split = dict[str, float]
"""`own` and `kernel`, and `switches`: how often the process was put to sleep because it had nothing to do."""

ABOUT = {
    "single": ("one-record Produce, 1 under way", "µs", 1e6),
    "pipelined": ("one-record Produce, 16 under way", "µs", 1e6),
    "produce": ("produce, 1 kB records, librdkafka", "s/GB", 1.0),
    "consume": ("consume, 1 kB records, cached, librdkafka", "s/GB", 1.0),
}
"""What it is, the unit, and how many of it are a second."""


def _used(node: NodeProcess) -> tuple[float, float, int]:
    place = Path(f"/proc/{node._process.pid}")
    fields = (place / "stat").read_text().rpartition(")")[2].split()
    status = (place / "status").read_text().splitlines()
    slept = next(int(line.split()[1]) for line in status if line.startswith("voluntary_ctxt_switches"))
    return int(fields[11]) / TICKS, int(fields[12]) / TICKS, slept


def split_of(node: NodeProcess, work: Callable[[], object], units: float) -> Split:
    """Per unit of work."""
    before = _used(node)
    work()
    own, kernel, slept = (after - first for after, first in zip(_used(node), before, strict=True))
    return {"own": own / units, "kernel": kernel / units, "switches": slept / units}


def splits(gigabytes: float = GIGABYTES, requests: int = REQUESTS) -> dict[str, Split]:
    found: dict[str, Split] = {}
    count = int(gigabytes * 1e9 / RECORD_BYTES)
    with running() as node:
        client = RawClient(node.port)
        for topic in ("single", "bulk"):
            client.create_topic(topic)
        frame = produce_frame("single", os.urandom(100), int(time.time() * 1000))
        client.pipeline(frame, max(requests // 10, 16), 16)
        found["single"] = split_of(node, lambda: client.pipeline(frame, requests, 1), requests)
        found["pipelined"] = split_of(node, lambda: client.pipeline(frame, 2 * requests, 16), 2 * requests)
        client.close()
        bulk = (node.bootstrap, "bulk", count)
        found["produce"] = split_of(node, lambda: in_process(produce_with_librdkafka, *bulk, RECORD_BYTES), gigabytes)
        found["consume"] = split_of(node, lambda: in_process(consume_with_librdkafka, *bulk), gigabytes)
    return found


def split_table(found: dict[str, Split]) -> str:
    rows = []
    for name, (about, unit, times) in ABOUT.items():
        own, kernel = found[name]["own"] * times, found[name]["kernel"] * times
        share = own / (own + kernel) if own + kernel else 0.0
        slept = found[name]["switches"]
        per = "request" if unit == "µs" else "GB"
        rows.append(
            (
                about,
                f"{number(own + kernel)} {unit}",
                f"{number(own)} ({share:.0%})",
                f"{number(kernel)} ({1 - share:.0%})",
                f"{number(slept)} per {per}",
            )
        )
    return table(("", "processor time of the node", "Python and its libraries", "kernel", "times asleep"), rows)
