"""Points in time, as people type them."""

from datetime import UTC, datetime

from ottla.cli.failure import Misused


def parse_time(text: str, option: str) -> int:
    """Milliseconds since 1970. A time without a zone is local time, as the user's clock shows it."""
    if text.isascii() and text.isdecimal():
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise Misused(f"{option} takes milliseconds or a time such as 2026-01-31T12:00:00Z, not {text!r}") from None
    return int(moment.astimezone(UTC).timestamp() * 1000)
