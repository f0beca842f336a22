"""Topic patterns of subscriptions (KIP-1082), in RE2's syntax as in Kafka.

RE2 matches in time linear in the text, whatever the pattern: a hostile one can neither backtrack nor blow up memory,
which no translation to Python's own engine could promise.
"""

from collections.abc import Iterable
from functools import cache
from typing import Any

from ottla.base.errors import ErrorCode, Refused

PATTERN_CHARS_MAX = 4096
PATTERN_MEMORY_BYTES_MAX = 1 << 20


@cache
def _engine() -> tuple[Any, Any]:
    """RE2 and its options, loaded for the first pattern: most nodes never see one, and it takes a megabyte or two."""
    import re2  # type: ignore[import-untyped, unused-ignore]

    options = re2.Options()
    options.log_errors = False
    options.max_mem = PATTERN_MEMORY_BYTES_MAX
    return re2, options


def check_pattern(pattern: str) -> None:
    compiled(pattern)


def matching_topics(pattern: str, topics: Iterable[str]) -> frozenset[str]:
    matches = compiled(pattern).fullmatch
    return frozenset(topic for topic in topics if matches(topic) is not None)


def compiled(pattern: str, name: str = "SubscribedTopicRegex") -> Any:
    """`name` is that of the field in which it came."""
    if len(pattern) > PATTERN_CHARS_MAX:
        raise Refused(ErrorCode.INVALID_REGULAR_EXPRESSION, f"A pattern has at most {PATTERN_CHARS_MAX} characters.")
    re2, options = _engine()
    try:
        return re2.compile(pattern, options)
    except re2.error as broken:
        detail = broken.args[0] if broken.args else b""
        text = detail.decode(errors="replace") if isinstance(detail, bytes) else str(detail)
        raise Refused(ErrorCode.INVALID_REGULAR_EXPRESSION, f"{name} is no valid pattern: {text}") from None
