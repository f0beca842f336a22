"""What commands print: JSON for programs, a table for people, tab-separated lines for a pipe."""

import json
import os
import sys
from collections.abc import Iterable, Sequence
from typing import Any


def print_json(data: Any) -> None:
    print(json.dumps(data, indent=2 if sys.stdout.isatty() else None, ensure_ascii=False))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    texts = [["" if cell is None else str(cell) for cell in row] for row in rows]
    if not sys.stdout.isatty():
        # No padding and no wrapping: `cut -f` and `awk` read it.
        for line in [columns, *texts]:
            print("\t".join(line))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(*columns, box=None, pad_edge=False, header_style="bold", padding=(0, 3, 0, 0))
    for row in texts:
        table.add_row(*(Text(cell) for cell in row))
    Console(highlight=False).print(table)


def discard_output() -> None:
    """Whoever read our output has gone (`… | head`); let what still comes vanish, also at the interpreter's exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def count_of(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
