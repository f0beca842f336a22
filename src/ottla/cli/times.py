"""Points in time and durations, as people type and read them."""

import re
from datetime import UTC, datetime

from ottla.cli.failure import Misused

_DURATION = re.compile(
    r"P?(?:(?P<weeks>\d+)W)?(?:(?P<days>\d+)D)?T?(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+)S)?", re.I
)
_SECONDS = {"weeks": 604_800, "days": 86_400, "hours": 3_600, "minutes": 60, "seconds": 1}


def parse_time(text: str, option: str) -> int:
    """Milliseconds since 1970. A time without a zone is local time, as the user's clock shows it."""
    if text.isascii() and text.isdecimal():
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise Misused(f"{option} takes milliseconds or a time such as 2026-01-31T12:00:00Z, not {text!r}") from None
    return int(moment.astimezone(UTC).timestamp() * 1000)


def parse_duration(text: str, option: str) -> int:
    """Milliseconds."""
    match = _DURATION.fullmatch(text.strip())
    if match is None or not any(match.groupdict().values()):
        raise Misused(f"{option} takes a time such as 90m, 1d12h or PT1H30M, not {text!r}")
    return sum(_SECONDS[unit] * int(count) for unit, count in match.groupdict().items() if count) * 1000


def duration_text(ms: int) -> str:
    """The two largest units, as `parse_duration` reads them."""
    left, parts = max(ms, 0) // 1000, []
    for unit in ("days", "hours", "minutes", "seconds"):
        count, left = divmod(left, _SECONDS[unit])
        if count:
            parts.append(f"{count}{unit[0]}")
    return "".join(parts[:2]) or "0s"


def time_text(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
