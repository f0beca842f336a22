"""Topic patterns of subscriptions (KIP-1082), in RE2's syntax as in Kafka.

RE2 matches in time linear in the text, whatever the pattern: a hostile one can neither backtrack nor blow up memory,
which no translation to Python's own engine could promise.
"""

from collections.abc import Iterable

import re2  # type: ignore[import-untyped, unused-ignore]

from ottla.base.errors import ErrorCode, Refused

PATTERN_CHARS_MAX = 4096
PATTERN_MEMORY_BYTES_MAX = 1 << 20

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.max_mem = PATTERN_MEMORY_BYTES_MAX


def check_pattern(pattern: str) -> None:
    compiled(pattern)


def matching_topics(pattern: str, topics: Iterable[str]) -> frozenset[str]:
    matches = compiled(pattern).fullmatch
    return frozenset(topic for topic in topics if matches(topic) is not None)


def compiled(pattern: str, name: str = "SubscribedTopicRegex") -> "re2._Regexp":
    """`name` is that of the field in which it came."""
    if len(pattern) > PATTERN_CHARS_MAX:
        raise Refused(ErrorCode.INVALID_REGULAR_EXPRESSION, f"A pattern has at most {PATTERN_CHARS_MAX} characters.")
    try:
        return re2.compile(pattern, _OPTIONS)
    except re2.error as broken:
        detail = broken.args[0] if broken.args else b""
        text = detail.decode(errors="replace") if isinstance(detail, bytes) else str(detail)
        raise Refused(ErrorCode.INVALID_REGULAR_EXPRESSION, f"{name} is no valid pattern: {text}") from None
