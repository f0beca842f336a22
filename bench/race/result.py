"""What a race has found: runs as they were, and the medians, ratios and verdicts that follow from them."""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.race.arena import Row
from bench.race.measures import MEASURES, Measure, Verdict, advantage, is_client_bound, judge
from bench.race.spread import Spread, paired_ratios, ratio

RESULT = Path(__file__).resolve().parents[1] / "race.json"
OURS, THEIRS = "ottla", "kafka"
_FORMAT = 1

Runs = dict[str, list[float]]
"""By contestant."""


@dataclass(frozen=True)
class Line:
    """One measure of one row, both sides of it."""

    workload: str
    row: str
    measure: str
    ours: Spread | None
    theirs: Spread | None
    client_cores: Mapping[str, float]
    notes: Sequence[str] = ()

    @property
    def kind(self) -> Measure:
        return MEASURES[self.measure]

    @property
    def ratio(self) -> float | None:
        return ratio(self.ours, self.theirs)

    @property
    def paired(self) -> Spread | None:
        return paired_ratios(self.ours, self.theirs)

    @property
    def verdict(self) -> Verdict:
        return judge(self.kind, self.ratio, self.client_cores)

    @property
    def advantage(self) -> float | None:
        return advantage(self.kind, self.ratio)


@dataclass
class Result:
    facts: dict[str, Any] = field(default_factory=dict)
    """Machine, contestants, options: whatever explains the figures."""
    figures: dict[tuple[str, str, str], Runs] = field(default_factory=dict)
    """By workload, row and measure, in the order in which they came."""
    notes: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    """Workloads that were not run, and why."""
    failures: list[str] = field(default_factory=list)

    def add(self, workload: str, contestant: str, row: Row) -> None:
        for measure, value in row.figures.items():
            runs = self.figures.setdefault((workload, row.name, measure), {})
            runs.setdefault(contestant, []).append(_short(value))
        for note in row.notes:
            said = self.notes.setdefault((workload, row.name), [])
            if (text := f"{contestant}: {note}") not in said:
                said.append(text)

    def lines(self) -> Iterator[Line]:
        for (workload, row, measure), runs in self.figures.items():
            yield Line(
                workload,
                row,
                measure,
                *(Spread.of(runs[name]) if runs.get(name) else None for name in (OURS, THEIRS)),
                self._client_cores(workload, row),
                self.notes.get((workload, row), ()),
            )

    def client_bound_rows(self) -> set[tuple[str, str]]:
        return {
            (workload, row) for workload, row, _ in self.figures if is_client_bound(self._client_cores(workload, row))
        }

    def _client_cores(self, workload: str, row: str) -> dict[str, float]:
        runs = self.figures.get((workload, row, "client cores"), {})
        return {name: Spread.of(values).median for name, values in runs.items() if values}

    # ---------------------------------------------------------------- file

    def to_json(self) -> str:
        rows: defaultdict[str, dict[str, Any]] = defaultdict(dict)
        for line in self.lines():
            row = rows[line.workload].setdefault(line.row, {"figures": {}})
            if line.notes:
                row["notes"] = list(line.notes)
            row["figures"][line.measure] = _figure(line)
        whole = {"format": _FORMAT, **self.facts, "workloads": rows, "absent": self.absent, "failures": self.failures}
        return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> "Result":
        """The runs are read, what follows from them is worked out again."""
        whole = json.loads(text)
        if whole.pop("format") != _FORMAT:
            raise ValueError("a result in another format")
        result = cls(absent=whole.pop("absent"), failures=whole.pop("failures"))
        for workload, rows in whole.pop("workloads").items():
            for name, row in rows.items():
                if row.get("notes"):
                    result.notes[workload, name] = row["notes"]
                for measure, figure in row["figures"].items():
                    runs = {side: figure[side]["runs"] for side in (OURS, THEIRS) if side in figure}
                    result.figures[workload, name, measure] = runs
        result.facts = whole
        return result


def _figure(line: Line) -> dict[str, Any]:
    told: dict[str, Any] = {}
    for name, spread in ((OURS, line.ours), (THEIRS, line.theirs)):
        if spread is not None:
            told[name] = {"median": _short(spread.median), "runs": list(spread.runs)}
    told["better"] = line.kind.better.value
    if line.ratio is not None:
        told["ratio"] = _short(line.ratio)
    if line.kind.goal is not None:
        told |= {"goal": line.kind.goal, "verdict": line.verdict.value}
    return told


def _short(value: float) -> float:
    """Six digits are more than any of these figures is worth."""
    return float(f"{value:.6g}")


def load(path: Path = RESULT) -> Result | None:
    return Result.from_json(path.read_text(encoding="utf-8")) if path.exists() else None
