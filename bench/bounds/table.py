"""Ours beside the bounds: which bound each workload has, and how near to it the measured figure comes."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from bench.bounds.parts import KINDS, OTHERS, PLACES, THE_OTHER_END, WINDOWS
from bench.page import table
from bench.race.measures import MEASURES, Better
from bench.race.result import OURS, Result
from bench.race.table import number

RESULT = Path(__file__).resolve().parents[1] / "result.json"
Bounds = dict[str, float]


@dataclass(frozen=True)
class Beside:
    """A figure of the race, or where there is none that of `make bench`, and the bound that it is held against."""

    workload: str
    row: str
    measure: str
    bound: str
    about: str
    alone: str = ""
    times: float = 1.0
    """So many times the bound that was measured."""


_ONE_KB = "1 kB, acks=all, 1 partition, librdkafka"
_CACHED = "1 kB, cached, 1 partition, librdkafka"
_MANY = "created, at rest, stopped and started again"
_BYTES_IN = "a bare process that receives, checks the CRC and writes to the page cache"
_BYTES_OUT = "a bare process that calls `sendfile`"
_ECHO = "a bare uvloop process that writes each request to the page cache and answers without reading it"
_HOPS = "a request to a bare process and its answer, 1,000 a second"
_FSYNC = "append and fsync in a bare process"
BESIDE = (
    Beside("produce", _ONE_KB, "MB/s", "receive_mb_per_s", _BYTES_IN, "produce MB/s"),
    Beside("produce", _ONE_KB, "broker cpu s/GB", "receive_s_per_gb", _BYTES_IN, "produce cpu s/GB"),
    Beside("produce", "1 kB, acks=all, 1 partition, perf-test", "MB/s", "receive_mb_per_s", _BYTES_IN),
    Beside("produce", "100 B, acks=all, 1 partition, librdkafka", "broker cpu s/GB", "receive_s_per_gb", _BYTES_IN),
    Beside("consume", _CACHED, "MB/s", "sendfile_mb_per_s", _BYTES_OUT, "consume MB/s"),
    Beside("consume", _CACHED, "broker cpu s/GB", "sendfile_s_per_gb", _BYTES_OUT, "consume cpu s/GB"),
    Beside("consume", "1 kB, cached, 1 partition, perf-test", "MB/s", "sendfile_mb_per_s", _BYTES_OUT),
    Beside("backlog", "20 MB/s coming in meanwhile", "MB/s", "sendfile_mb_per_s", _BYTES_OUT),
    Beside(
        "one-record requests",
        "1 client, 1 under way each, plain sockets",
        "requests/s",
        "echo_1_1_per_s",
        _ECHO,
        "single requests/s",
    ),
    Beside(
        "one-record requests",
        "1 client, 1 under way each, plain sockets",
        "broker cpu us/request",
        "echo_1_1_us",
        _ECHO,
        "single cpu us/request",
    ),
    Beside(
        "one-record requests",
        "1 client, 16 under way each, plain sockets",
        "requests/s",
        "echo_1_16_per_s",
        _ECHO,
        "pipelined requests/s",
    ),
    Beside(
        "one-record requests",
        "1 client, 16 under way each, plain sockets",
        "broker cpu us/request",
        "echo_1_16_us",
        _ECHO,
        "pipelined cpu us/request",
    ),
    Beside(
        "one-record requests", "50 clients, 1 under way each, plain sockets", "requests/s", "echo_50_1_per_s", _ECHO
    ),
    Beside("latency", "1,000 records/s, 1 kB, acks=all", "p50 ms", "round_trip_p50_ms", _HOPS),
    Beside("latency", "1,000 records/s, 1 kB, acks=all", "p99 ms", "round_trip_p99_ms", _HOPS),
    Beside("fsync per ack", "1 producer", "acks/s", "fsyncs_per_s", _FSYNC, "fsynced acks/s, 1 producers"),
    Beside(
        "fsync per ack",
        "50 producers",
        "acks/s",
        "fsyncs_per_s",
        f"{_FSYNC}, shared by all 50",
        "fsynced acks/s, 50 producers",
        50,
    ),
    Beside("1,000 connections", "each with one record under way", "requests/s", "echo_50_1_per_s", _ECHO),
    Beside("transactions", "100 ms each, 1 kB records, librdkafka", "MB/s", "receive_mb_per_s", _BYTES_IN),
    Beside(
        "10,000 partitions",
        _MANY,
        "restart s",
        "open_us",
        "opening a file for each partition",
        "",
        10_000 / 1e6,
    ),
    Beside(
        "start",
        "an empty data directory",
        "first ack s",
        "bare_start_s",
        "Python that imports the event loop",
        "start to first ack s",
    ),
    Beside(
        "start",
        "an empty data directory",
        "idle memory MB",
        "bare_memory_mb",
        "Python that imports the event loop",
        "idle memory MB",
    ),
)


def _alone() -> dict[str, Any]:
    figures: dict[str, Any] = json.loads(RESULT.read_text(encoding="utf-8"))["figures"]
    return figures


def _rows(bounds: Bounds, race: Result | None, alone: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    client_bound = set() if race is None else race.client_bound_rows()
    for one in BESIDE:
        if one.bound not in bounds:
            continue
        place = (one.workload, one.row, one.measure)
        runs = race.figures.get(place, {}).get(OURS) if race is not None else None
        if runs:
            ours, source = median(runs), "race"
        elif one.alone in alone:
            ours, source = alone[one.alone]["median"], "bench"
        else:
            continue
        bound = bounds[one.bound] * one.times
        share = ours / bound if MEASURES[one.measure].better is Better.HIGHER else bound / ours
        remark = f"{source}; the client is at its limit" if place[:2] in client_bound else source
        unit = one.measure
        yield one.workload, one.row, unit, one.about, number(bound), number(ours), f"{share:.0%}", remark


def beside(bounds: Bounds, race: Result | None, alone: dict[str, Any] | None = None) -> str:
    """Rows that neither the race nor the benchmark has are left out."""
    head = ("workload", "row", "figure", "bound", "bound's", "ours", "share", "from")
    return table(head, list(_rows(bounds, race, _alone() if alone is None else alone)))


def parts_table(parts: dict[str, dict[str, float]]) -> str:
    columns = [(kind, window) for kind in KINDS for window in WINDOWS]
    names = {1: "alone", 16: "16 under way"}
    head = ("µs per request", *(f"{kind.capitalize()}, {names[window]}" for kind, window in columns))
    kinds = [kind for kind, _ in PLACES if kind != THE_OTHER_END] + [OTHERS]
    found = [parts[f"{kind} {window}"] for kind, window in columns]
    rows = [(kind, *(f"{column.get(kind, 0.0):.1f}" for column in found)) for kind in kinds]
    rows.append(("**together**", *(f"**{sum(column.values()):.1f}**" for column in found)))
    return table(head, rows)
