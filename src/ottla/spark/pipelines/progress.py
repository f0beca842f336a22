"""How a flow does: Spark's reports of single batches, added up. Pure: reports in, plain values out."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

ROWS = "ottla_rows"
"""The observation that counts rows while they are written."""
PHASES = {
    "latestOffset": "look",
    "queryPlanning": "plan",
    "walCommit": "note",
    "addBatch": "work",
    "commitOffsets": "commit",
}
"""Spark's names of a batch's phases, and ours."""


@dataclass(slots=True)
class Progress:
    batch: int = -1
    read_total: int = 0
    written_total: int = 0
    dead_total: int = 0
    read_per_s: float = 0.0
    lag: int | None = None
    """Records between what was read and the end, over all partitions; None where the source does not say."""
    trigger_ms: int = 0
    phases_ms: dict[str, int] = field(default_factory=dict)
    watermark: str = ""
    state_rows: int = 0
    last_ms: int = 0
    _seen: tuple[str, int, str] = ("", -1, "")

    def add(self, report: Mapping[str, Any], scans: Sequence[int] = ()) -> bool:
        """Take in one report; False if it was known already. `scans`: how often the plan reads each of its sources."""
        identity = (str(report.get("runId", "")), int(report["batchId"]), str(report.get("timestamp", "")))
        if identity[0] == self._seen[0] and identity[1:] <= self._seen[1:]:
            return False
        self._seen = identity
        self.last_ms = _ms(identity[2])
        self._take_sources(report)
        durations = report.get("durationMs") or {}
        if "addBatch" not in durations:
            # A look that found nothing: the last batch stays the last one.
            self.read_per_s = 0.0
            return True
        self.batch = identity[1]
        read = _read(report, scans)
        self.read_total += read
        self.trigger_ms = int(durations.get("triggerExecution") or 0)
        self.read_per_s = read * 1000 / max(self.trigger_ms, 1)
        counted = (report.get("observedMetrics") or {}).get(ROWS) or {}
        self.written_total += _written(report, counted)
        self.dead_total += int(counted.get("dead") or 0)
        self.phases_ms = {name: int(durations[theirs]) for theirs, name in PHASES.items() if theirs in durations}
        self.state_rows = sum(int(state.get("numRowsTotal") or 0) for state in report.get("stateOperators") or ())
        return True

    def _take_sources(self, report: Mapping[str, Any]) -> None:
        self.watermark = str((report.get("eventTime") or {}).get("watermark") or "")
        lags = [lag for source in report.get("sources") or () if (lag := source_lag(source)) is not None]
        self.lag = sum(lags) if lags else None

    def as_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__ if not name.startswith("_")}


def source_lag(source: Mapping[str, Any]) -> int | None:
    """The distance from where the batch ended to where the source did, partition by partition."""
    end, latest = dict(_offsets(source.get("endOffset"))), dict(_offsets(source.get("latestOffset")))
    if not latest:
        return None
    return sum(max(offset - end.get(place, 0), 0) for place, offset in latest.items())


def _offsets(offsets: Any) -> Iterator[tuple[tuple[str, str], int]]:
    """`{topic: {partition: offset}}`, as a mapping or as JSON; what does not look so is passed over."""
    if not isinstance(offsets, Mapping):
        return
    for topic, partitions in offsets.items():
        if isinstance(partitions, Mapping) and not topic.startswith("@"):
            yield from (((topic, index), offset) for index, offset in partitions.items() if isinstance(offset, int))


def _read(report: Mapping[str, Any], scans: Sequence[int]) -> int:
    """Spark counts a row as often as the plan reads it, and a plan with dead letters reads twice."""
    sources = report.get("sources") or ()
    if not scans or len(scans) != len(sources):
        return int(report.get("numInputRows") or 0)
    return sum(int(source.get("numInputRows") or 0) // times for source, times in zip(sources, scans, strict=True))


def _written(report: Mapping[str, Any], counted: Mapping[str, Any]) -> int:
    if "rows" in counted:
        return int(counted["rows"] or 0) - int(counted.get("dead") or 0)
    return max(int((report.get("sink") or {}).get("numOutputRows") or 0), 0)


def _ms(timestamp: str) -> int:
    try:
        return int(datetime.fromisoformat(timestamp).timestamp() * 1000)
    except ValueError:
        return 0
