"""The plan as a picture: four small charts of lines, written by hand as SVG like the race's."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

_WIDTH, _HEIGHT = 920, 676
_PANEL_WIDTH, _PANEL_HEIGHT = 330, 210
_LEFT, _TOP, _STEP_X, _STEP_Y = 76, 92, 450, 320
_COLOURS = ("#2563a8", "#d1491b", "#3f8f4f", "#7a52a5")
_GREY, _INK = "#5a626d", "#1d232b"
_FONT = 'font-family="system-ui, sans-serif"'


@dataclass(frozen=True)
class Line:
    name: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Panel:
    title: str
    across: str
    up: str
    lines: tuple[Line, ...]
    is_log_across: bool = True
    is_log_up: bool = True


@dataclass(frozen=True)
class Axis:
    least: float
    most: float
    is_log: bool

    @classmethod
    def over(cls, values: Sequence[float], is_log: bool) -> "Axis":
        if not is_log:
            return cls(0.0, max(values) * 1.05 or 1.0, False)
        low, high = min(value for value in values if value > 0), max(values)
        return cls(10 ** math.floor(math.log10(low)), 10 ** math.ceil(math.log10(high) - 1e-9), True)

    def part(self, value: float) -> float:
        if self.is_log:
            return math.log10(max(value, self.least) / self.least) / max(math.log10(self.most / self.least), 1e-9)
        return value / self.most

    def ticks(self) -> list[float]:
        if self.is_log:
            first, last = round(math.log10(self.least)), round(math.log10(self.most))
            return [10.0**power for power in range(first, last + 1)]
        step = 10 ** math.floor(math.log10(self.most))
        step = step / 5 if self.most / step < 2 else step / 2 if self.most / step < 5 else step
        return [step * number for number in range(int(self.most / step) + 1)]


def short(value: float) -> str:
    for size, mark in ((1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{mark}"
    return f"{value:g}"


def draw(title: str, panels: Sequence[Panel]) -> str:
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" '
        f'height="{_HEIGHT}" role="img" aria-label="{escape(title)}">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#ffffff"/>',
        _text(16, 28, title, size=16, weight="600"),
    ]
    for number, panel in enumerate(panels):
        left, top = _LEFT + number % 2 * _STEP_X, _TOP + number // 2 * _STEP_Y
        parts += _panel(panel, left, top)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _panel(panel: Panel, left: float, top: float) -> Iterator[str]:
    across = Axis.over([x for line in panel.lines for x, _ in line.points], panel.is_log_across)
    up = Axis.over([y for line in panel.lines for _, y in line.points], panel.is_log_up)
    bottom, right = top + _PANEL_HEIGHT, left + _PANEL_WIDTH
    yield _text(left, top - 34, panel.title, size=13, weight="600")
    for value in up.ticks():
        y = bottom - up.part(value) * _PANEL_HEIGHT
        yield f'<line x1="{left}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}" stroke="#e3e6ea"/>'
        yield _text(left - 8, y + 4, short(value), anchor="end", colour=_GREY)
    for value in across.ticks():
        x = left + across.part(value) * _PANEL_WIDTH
        yield f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{bottom}" stroke="#e3e6ea"/>'
        yield _text(x, bottom + 17, short(value), anchor="middle", colour=_GREY)
    yield _text(right, bottom + 34, panel.across, anchor="end", colour=_GREY)
    yield _text(left, top - 16, panel.up, colour=_GREY)
    key = left + 6.2 * len(panel.up) + 14
    for number, line in enumerate(panel.lines):
        colour = _COLOURS[number % len(_COLOURS)]
        places = [(left + across.part(x) * _PANEL_WIDTH, bottom - up.part(y) * _PANEL_HEIGHT) for x, y in line.points]
        path = " ".join(f"{'L' if at else 'M'}{x:.1f} {y:.1f}" for at, (x, y) in enumerate(places))
        name = f"<title>{escape(line.name)}</title>"
        yield f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="2">{name}</path>'
        for x, y in places:
            yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>'
        yield f'<path d="M{key:.1f} {top - 20}h14" stroke="{colour}" stroke-width="3"/>'
        yield _text(key + 19, top - 16, line.name)
        key += 32 + 6.2 * len(line.name)


def _text(
    x: float,
    y: float,
    said: str,
    *,
    anchor: str = "start",
    size: int = 12,
    weight: str = "400",
    colour: str = _INK,
) -> str:
    where = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text {where} {_FONT} font-size="{size}" font-weight="{weight}" fill="{colour}">{escape(said)}</text>'
