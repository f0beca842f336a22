"""Places in a page that programs write: what stands between two markers, and nothing else."""

from collections.abc import Sequence


class NoPlace(ValueError):
    """The page has no place for the text."""


def markers(name: str) -> tuple[str, str]:
    return f"<!-- {name}: begin -->", f"<!-- {name}: end -->"


def put_between(page: str, text: str, name: str = "race") -> str:
    """Replace what stands between the markers of this name."""
    opening, closing = markers(name)
    before, begin, rest = page.partition(opening)
    _, end, after = rest.partition(closing)
    if not begin or not end:
        raise NoPlace(f"the page has no {opening} … {closing}")
    return f"{before}{opening}\n{text.strip()}\n{closing}{after}"


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ("---",) * len(head), *rows))
