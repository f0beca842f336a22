"""The result as a picture: how many times better or worse, every row a dot, misses in a colour of their own.

Written by hand as SVG: thirty lines of drawing do not pay for a plotting library.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from statistics import median

from bench.race.measures import Better, Verdict
from bench.race.result import Line, Result

_WIDTH, _LEFT, _RIGHT, _TOP, _STEP, _FOOT = 860, 300, 90, 64, 22, 44
_LEAST, _MOST = 1 / 4, 4.0
"""The axis reaches at least so far, and further if the figures do."""
_FARTHEST = 256.0
_COLOURS = {
    Verdict.MET: "#2563a8",
    Verdict.MISSED: "#d1491b",
    Verdict.NO_GOAL: "#8a8f98",
    Verdict.CLIENT_BOUND: "#8a8f98",
}
_FONT = 'font-family="system-ui, sans-serif"'


@dataclass(frozen=True)
class Strip:
    """One measure of one workload: a dot for each of its rows."""

    label: str
    lines: tuple[Line, ...]

    @property
    def advantages(self) -> list[float]:
        return [line.advantage for line in self.lines if line.advantage is not None]

    @property
    def goal(self) -> float | None:
        kind = self.lines[0].kind
        if kind.goal is None:
            return None
        return kind.goal if kind.better is Better.HIGHER else 1 / kind.goal


def strips(result: Result) -> list[Strip]:
    grouped: dict[tuple[str, str], list[Line]] = {}
    for line in result.lines():
        if line.advantage is not None:
            grouped.setdefault((line.workload, line.measure), []).append(line)
    return [Strip(f"{workload}: {measure}", tuple(lines)) for (workload, measure), lines in grouped.items()]


@dataclass(frozen=True)
class Axis:
    """A logarithmic one, with 1× where both are equal."""

    least: float
    most: float

    @classmethod
    def over(cls, values: Sequence[float]) -> "Axis":
        least = 2.0 ** math.floor(math.log2(max(min([_LEAST, *values]), 1 / _FARTHEST)))
        most = 2.0 ** math.ceil(math.log2(min(max([_MOST, *values]), _FARTHEST)))
        return cls(least, most)

    def at(self, value: float) -> float:
        bounded = min(max(value, self.least), self.most)
        part = math.log(bounded / self.least) / math.log(self.most / self.least)
        return _LEFT + part * (_WIDTH - _LEFT - _RIGHT)

    def ticks(self) -> list[float]:
        first, last = round(math.log2(self.least)), round(math.log2(self.most))
        step = 1 if last - first <= 8 else 2
        return [2.0**power for power in range(first, last + 1) if power % step == 0]


def times(value: float) -> str:
    if value == math.inf:
        return "∞"
    return f"{value:.0f}×" if value >= 10 else f"{value:.1f}×" if value >= 1 else f"{value:.2f}×"


def draw(result: Result) -> str:
    shown = strips(result)
    axis = Axis.over([value for strip in shown for value in strip.advantages])
    height = _TOP + _STEP * len(shown) + _FOOT
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" '
        f'role="img" aria-label="Ottla beside Apache Kafka">',
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
        _text(16, 24, "Ottla beside Apache Kafka: how many times better", size=15, weight="600"),
        *_scale(axis, height),
        *(part for number, strip in enumerate(shown) for part in _strip(strip, axis, _TOP + _STEP * (number + 0.5))),
        *_legend(height - 14),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _scale(axis: Axis, height: int) -> Iterator[str]:
    bottom = height - _FOOT
    for value in axis.ticks():
        x = axis.at(value)
        colour, width = ("#333a44", 1.5) if value == 1 else ("#e3e6ea", 1)
        yield f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{bottom}" stroke="{colour}" stroke-width="{width}"/>'
        yield _text(x, _TOP - 6, f"{value:g}×" if value >= 1 else f"1/{1 / value:g}", anchor="middle", colour="#5a626d")
    yield _text(axis.at(1) - 8, _TOP - 22, "◂ Kafka better", anchor="end", colour="#5a626d")
    yield _text(axis.at(1) + 8, _TOP - 22, "Ottla better ▸", colour="#5a626d")


def _strip(strip: Strip, axis: Axis, y: float) -> Iterator[str]:
    yield _text(_LEFT - 14, y + 4, strip.label, anchor="end")
    if strip.goal is not None:
        x = axis.at(strip.goal)
        yield f'<path d="M{x:.1f} {y - 8:.1f}v16" stroke="#111" stroke-width="2" stroke-dasharray="2 2"/>'
    for line in strip.lines:
        assert line.advantage is not None
        colour = _COLOURS[line.verdict]
        fill = "#ffffff" if line.verdict is Verdict.CLIENT_BOUND else colour
        title = f"<title>{escape(line.row)}: {times(line.advantage)}</title>"
        place = f'cx="{axis.at(line.advantage):.1f}" cy="{y:.1f}" r="4.5"'
        yield f'<circle {place} fill="{fill}" fill-opacity="0.85" stroke="{colour}">{title}</circle>'
    yield _text(_WIDTH - _RIGHT + 16, y + 4, times(median(strip.advantages)), weight="600")


def _legend(y: float) -> Iterator[str]:
    x = 16.0
    for verdict, said in (
        (Verdict.MET, "goal met"),
        (Verdict.MISSED, "goal missed"),
        (Verdict.NO_GOAL, "no goal"),
        (Verdict.CLIENT_BOUND, "client is the bottleneck"),
    ):
        fill = "#ffffff" if verdict is Verdict.CLIENT_BOUND else _COLOURS[verdict]
        yield f'<circle cx="{x:.1f}" cy="{y - 4:.1f}" r="4.5" fill="{fill}" stroke="{_COLOURS[verdict]}"/>'
        yield _text(x + 10, y, said, colour="#5a626d")
        x += 34 + 6.6 * len(said)
    yield f'<path d="M{x:.1f} {y - 12:.1f}v16" stroke="#111" stroke-width="2" stroke-dasharray="2 2"/>'
    yield _text(x + 8, y, "goal; one dot per row, the median at the right", colour="#5a626d")


def _text(
    x: float,
    y: float,
    said: str,
    *,
    anchor: str = "start",
    size: int = 12,
    weight: str = "400",
    colour: str = "#1d232b",
) -> str:
    where = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text {where} {_FONT} font-size="{size}" font-weight="{weight}" fill="{colour}">{escape(said)}</text>'
