"""How a run looks: a table of its flows, for the live view, `status` and `ls` alike."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ottla.cli.times import duration_text

if TYPE_CHECKING:
    from rich.table import Table

COLUMNS = ("FLOW", "STATE", "BATCH", "ROWS/S", "READ", "WRITTEN", "DEAD", "LAG", "BATCH TIME", "WATERMARK")
_COLOURS = {"running": "green", "failed": "red", "waiting": "yellow", "paused": "cyan"}


def row(name: str, flow: Mapping[str, Any], state: str, now_ms: int) -> list[str]:
    is_new = flow["batch"] < 0
    if state == "waiting" and flow["restarts"]:
        state = f"waiting {max(flow['start_ms'] - now_ms, 0) / 1000:.0f} s"
    phases = " ".join(f"{phase} {ms}" for phase, ms in flow["phases_ms"].items() if ms)
    return [
        name,
        state,
        "" if is_new else str(flow["batch"]),
        "" if is_new else f"{flow['read_per_s']:,.0f}",
        f"{flow['read_total']:,}",
        f"{flow['written_total']:,}",
        f"{flow['dead_total']:,}",
        "" if flow["lag"] is None else f"{flow['lag']:,}",
        "" if is_new else f"{flow['trigger_ms']} ms" + (f" ({phases})" if phases else ""),
        "" if flow["watermark"].startswith("1970-01-01T00:00:00") else flow["watermark"],
    ]


def live_table(status: Mapping[str, Any], now_ms: int) -> "Table":
    from rich.table import Table
    from rich.text import Text

    table = Table(*COLUMNS, box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for name, flow in status["flows"].items():
        cells = row(name, flow, flow["state"], now_ms)
        table.add_row(
            *(Text(cell, _COLOURS.get(flow["state"], "") if at == 1 else "") for at, cell in enumerate(cells))
        )
    return table


def event_line(entry: Mapping[str, Any]) -> str:
    time = datetime.fromtimestamp(entry["time_ms"] / 1000, UTC).astimezone().strftime("%H:%M:%S")
    return f"{time} {entry['flow']} {entry['event']}" + (f": {entry['text']}" if entry["text"] else "")


def ago(then_ms: int, now_ms: int) -> str:
    return f"{duration_text(now_ms - then_ms)} ago"
