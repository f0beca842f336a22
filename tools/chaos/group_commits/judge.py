"""What came of it: every row of the source once in the output, batches whole, offsets where the output ends. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tools.chaos.group_commits.reading import Row

CASES_MAX = 5


@dataclass
class Verdict:
    anomalies: dict[str, list[str]] = field(default_factory=dict)
    source_rows: int = 0
    batches: int = 0
    replays: int = 0
    refusals: int = 0

    @property
    def is_good(self) -> bool:
        return not self.anomalies


@dataclass(frozen=True)
class Found:
    """In the end, when all is healed and drained."""

    source: Sequence[Row]
    output: Sequence[Row]
    offsets: Mapping[int, int]
    """Of the group, by partition of the source."""
    diary: Sequence[Mapping[str, Any]]


Source = tuple[int, int]
"""Partition and offset."""


def judge(found: Found) -> Verdict:
    output = [_parsed(row) for row in found.output]
    verdict = Verdict(
        source_rows=len(found.source),
        batches=len({batch for batch, _, _ in output}),
        replays=sum(1 for row in found.diary if row["event"] == "answered" and row["is_replay"]),
        refusals=sum(1 for row in found.diary if row["event"] == "refused"),
    )
    for find in (_rows, _offsets, _batches, _refusals, _breaks):
        for name, case in find(found, output):
            verdict.anomalies.setdefault(name, []).append(case)
    return verdict


def _parsed(row: Row) -> tuple[int, Source, bytes]:
    batch, partition, offset, value = row.value.split(b"|", 3)
    return int(batch), (int(partition), int(offset)), value


Output = Sequence[tuple[int, Source, bytes]]
Finding = Iterator[tuple[str, str]]


def _rows(found: Found, output: Output) -> Finding:
    wanted = {(row.partition, row.offset): row.value for row in found.source}
    times = Counter(source for _, source, _ in output)
    for source in sorted(wanted.keys() - times.keys()):
        yield "lost", f"{source} of the source is not in the output"
    for source, count in sorted(times.items()):
        if count > 1:
            batches = sorted(batch for batch, other, _ in output if other == source)
            yield "doubled", f"{source} is there {count} times, in batches {batches}"
    for _, source, value in output:
        if wanted.get(source) != value:
            yield "foreign", f"{source} holds {value!r}, the source {wanted.get(source)!r}"


def _offsets(found: Found, output: Output) -> Finding:
    ends: dict[int, int] = {}
    for _, (partition, offset), _ in output:
        ends[partition] = max(ends.get(partition, 0), offset + 1)
    for partition in sorted(ends.keys() | found.offsets.keys()):
        if ends.get(partition, 0) != found.offsets.get(partition, 0):
            told = found.offsets.get(partition)
            yield "offsets", f"partition {partition}: the group is at {told}, the output ends at {ends.get(partition)}"


def _batches(found: Found, output: Output) -> Finding:
    """What was answered to be committed is there, whole, and nothing else under its number."""
    by_batch: dict[int, set[Source]] = {}
    for batch, source, _ in output:
        by_batch.setdefault(batch, set()).add(source)
    sources = {(row.partition, row.offset) for row in found.source}
    for row in found.diary:
        if row["event"] in ("answered", "found"):
            wanted = set(_within(row["ranges"], sources))
            there = by_batch.get(row["batch"], set())
            if wanted != there:
                yield (
                    "torn",
                    f"batch {row['batch']}: {len(wanted - there)} rows missing, {len(there - wanted)} too many",
                )


def _within(ranges: Mapping[Any, Sequence[int]], sources: Iterable[Source]) -> Iterator[Source]:
    bounds = {int(partition): (start, end) for partition, (start, end) in ranges.items()}
    return (
        (partition, offset)
        for partition, offset in sources
        if partition in bounds and bounds[partition][0] <= offset < bounds[partition][1]
    )


def _refusals(found: Found, output: Output) -> Finding:
    """Loud when a checkpoint is set back, and only when there is a reason."""
    has_reason, is_set_back = False, False
    for row in found.diary:
        match row["event"]:
            case "double":  # whoever of the two is slower may find the log ahead of it
                has_reason = True
            case "restored":
                has_reason = is_set_back = True
            case "refused":
                if not has_reason:
                    yield "refused without reason", str(row["why"])
                if row["driver"] == "main":
                    is_set_back = False
            case "answered" if is_set_back and row["driver"] == "main":
                yield "went on from an old checkpoint", f"batch {row['batch']}"


def _breaks(found: Found, output: Output) -> Finding:
    for row in found.diary:
        if row["event"] == "broken":
            yield "broken", str(row["why"])[-500:]
