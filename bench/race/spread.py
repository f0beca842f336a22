"""Medians, spreads and ratios of runs that took turns."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True)
class Spread:
    median: float
    least: float
    most: float
    runs: tuple[float, ...]

    @classmethod
    def of(cls, runs: Sequence[float]) -> "Spread":
        if not runs:
            raise ValueError("no runs, no spread")
        return cls(median(runs), min(runs), max(runs), tuple(runs))


def ratio(ours: Spread | None, theirs: Spread | None) -> float | None:
    """Of the medians. Nothing can be said where the other side's is zero."""
    if ours is None or theirs is None or theirs.median == 0:
        return None
    return ours.median / theirs.median


def paired_ratios(ours: Spread | None, theirs: Spread | None) -> Spread | None:
    """Run by run, neighbours in time: what their spread leaves open, the ratio leaves open."""
    if ours is None or theirs is None:
        return None
    pairs = [one / other for one, other in zip(ours.runs, theirs.runs, strict=False) if other]
    return Spread.of(pairs) if pairs else None
