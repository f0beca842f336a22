"""The result as a table: in the terminal, and as Markdown for the documentation."""

import sys
from collections.abc import Iterator

from rich.console import Console
from rich.table import Table

from bench.race.measures import Better, Verdict
from bench.race.result import Line, Result
from bench.race.spread import Spread

_COLOURS = {Verdict.MET: "green", Verdict.MISSED: "red", Verdict.CLIENT_BOUND: "yellow"}
_WIDTH = 150
"""Of a table that goes into a file."""
_HEAD = ("", "figure", "Ottla", "Kafka", "ratio", "goal", "")


def number(value: float) -> str:
    """Three digits, without an exponent."""
    if value == 0:
        return "0"
    size = abs(value)
    if size >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if size >= 10 else f"{value:.2f}" if size >= 0.01 else f"{value:.4f}"


def spread(found: Spread | None) -> str:
    if found is None:
        return "–"
    if len(found.runs) == 1:
        return number(found.median)
    return f"{number(found.median)} ({number(found.least)}–{number(found.most)})"


def goal(line: Line) -> str:
    if line.kind.goal is None:
        return ""
    return f"{'≥' if line.kind.better is Better.HIGHER else '≤'} {line.kind.goal:g}×"


def ratio(line: Line) -> str:
    if line.kind.better is Better.NEITHER or line.ratio is None:
        return ""
    pairs = line.paired
    if pairs is None or len(pairs.runs) == 1:
        return f"{number(line.ratio)}×"
    return f"{number(line.ratio)}× ({number(pairs.least)}–{number(pairs.most)})"


def show(result: Result, published: Result | None, console: Console | None = None) -> None:
    before = {} if published is None else {_key(line): line.ratio for line in published.lines()}
    table = Table(title="Ottla beside Apache Kafka: medians (least–most), ratios Ottla / Kafka", title_justify="left")
    for name in _HEAD:
        table.add_column(name, overflow="fold")
    if before:
        table.add_column("published")
    workload = row = ""
    for line in result.lines():
        if line.workload != workload:
            workload, row = line.workload, ""
            table.add_section()
            table.add_row(f"[bold]{workload}[/bold]")
        title, row = (line.row if line.row != row else ""), line.row
        told = line.verdict.value
        colour = _COLOURS.get(line.verdict)
        cells = [title, line.measure, spread(line.ours), spread(line.theirs), ratio(line), goal(line)]
        cells.append(f"[{colour}]{told}[/{colour}]" if colour else told)
        if before:
            old = before.get(_key(line))
            cells.append("" if old is None or line.kind.better is Better.NEITHER else f"{number(old)}×")
        table.add_row(*cells)
    console = console or (Console() if sys.stdout.isatty() else Console(width=_WIDTH))
    console.print(table)
    for text in remarks(result):
        console.print(text, highlight=False, markup=False)


def _key(line: Line) -> tuple[str, str, str]:
    return line.workload, line.row, line.measure


def remarks(result: Result) -> Iterator[str]:
    """What has to be said beside the figures."""
    for workload, row in sorted(result.client_bound_rows()):
        yield f"{workload}, {row}: the client is the bottleneck on both sides; compare CPU per GB, not the rate."
    for (workload, row), notes in result.notes.items():
        for note in notes:
            yield f"{workload}, {row}: {note}"
    for workload, reason in result.absent.items():
        yield f"{workload}: not run, {reason}"
    for failure in result.failures:
        yield f"failed: {failure}"


def markdown(result: Result) -> str:
    """One table per workload."""
    parts: list[str] = []
    workload = row = ""
    for line in result.lines():
        if line.workload != workload:
            workload, row = line.workload, ""
            parts += ["", f"**{workload}**", "", "| | figure | Ottla | Apache Kafka | ratio | goal | |"]
            parts.append("|---|---|---|---|---|---|---|")
        title, row = (line.row if line.row != row else ""), line.row
        verdict = f"**{line.verdict.value}**" if line.verdict is Verdict.MISSED else line.verdict.value
        cells = (title, line.measure, spread(line.ours), spread(line.theirs), ratio(line), goal(line), verdict)
        parts.append(f"| {' | '.join(cells)} |")
    said = list(remarks(result))
    if said:
        parts += ["", *(f"- {text}" for text in said)]
    return "\n".join(parts).strip() + "\n"
