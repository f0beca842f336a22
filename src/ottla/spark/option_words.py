"""Options as Spark hands them over: texts under names whose case does not count. Wrong ones are refused with advice.

The names, and what is refused, are those of Spark's own Kafka connector; a query moves here by its `format` alone.
"""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches

KAFKA = "kafka."
BOOTSTRAP = "kafka.bootstrap.servers"
_CLOSE = 0.85
_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}

_NOT_OURS_TO_SET = {
    "kafka.key.deserializer": "keys come as bytes; decode them with functions on the DataFrame",
    "kafka.value.deserializer": "values come as bytes; decode them with functions on the DataFrame",
    "kafka.key.serializer": "keys are bytes or strings; encode them with functions on the DataFrame",
    "kafka.value.serializer": "values are bytes or strings; encode them with functions on the DataFrame",
    "kafka.enable.auto.commit": "Spark keeps the progress of a query; the option 'group' shows it as a consumer group",
    "kafka.auto.offset.reset": "where a new query starts is said by the option 'startingOffsets' (earliest, latest or "
    "JSON), and what a gap means by 'failOnDataLoss'",
    "kafka.interceptor.classes": "interceptors are Java classes, and this client is none",
    "kafka.partitioner.class": "partitioners are Java classes; give the partition in a column 'partition'",
    "kafka.transactional.id": "the sink makes its own transactions, one for each task",
}


class BadOption(ValueError):
    """An option, or several together, that cannot be followed; the text says which and what to do."""


class OptionWords:
    """The texts of one read or write."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = {name.lower(): str(value) for name, value in given.items()}

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._given

    def text(self, name: str) -> str | None:
        value = self._given.get(name.lower())
        return None if value is None else value.strip()

    def flag(self, name: str, default: bool) -> bool:
        text = self.text(name)
        if text is None:
            return default
        if text.lower() not in ("true", "false"):
            raise BadOption(f"option '{name}' is true or false, not '{text}'")
        return text.lower() == "true"

    def count(self, name: str) -> int | None:
        """A whole number above zero."""
        number = self.number(name)
        if number is not None and number <= 0:
            raise BadOption(f"option '{name}' must be positive, not {number}")
        return number

    def number(self, name: str) -> int | None:
        text = self.text(name)
        if text is None:
            return None
        try:
            return int(text)
        except ValueError:
            raise BadOption(f"option '{name}' is a whole number, not '{text}'") from None

    def duration_ms(self, name: str, default_ms: int) -> int:
        """Spark's way to write a time: "15m", "500ms"; a bare number counts milliseconds."""
        text = self.text(name)
        if text is None:
            return default_ms
        digits = text.rstrip("abcdefghijklmnopqrstuvwxyz")
        unit = text[len(digits) :] or "ms"
        if not digits.strip().isdecimal() or unit not in _UNITS_MS:
            raise BadOption(f"option '{name}' is a time such as 500ms, 30s or 15m, not '{text}'")
        return int(digits) * _UNITS_MS[unit]

    def one_of(self, name: str, allowed: Iterable[str], default: str) -> str:
        text = (self.text(name) or default).lower()
        if text not in (words := list(allowed)):
            raise BadOption(f"option '{name}' is one of {', '.join(words)}, not '{text}'")
        return text

    def kafka(self) -> dict[str, str]:
        """What is passed on to the client, by Kafka's names."""
        for name, why in _NOT_OURS_TO_SET.items():
            if name in self._given:
                raise BadOption(f"option '{name}' cannot be set: {why}")
        if not self.text(BOOTSTRAP):
            raise BadOption(f"option '{BOOTSTRAP}' must be set: the brokers to begin with, as HOST:PORT[,HOST:PORT…]")
        return self.below(KAFKA)

    def below(self, prefix: str) -> dict[str, str]:
        """All whose names begin so, under what follows."""
        return {name.removeprefix(prefix): text for name, text in self._given.items() if name.startswith(prefix)}

    def refuse_misspelt(self, known: Iterable[str], prefixes: tuple[str, ...] = ()) -> None:
        """Spark adds names of its own, so a strange name is let pass unless it looks like one of ours."""
        ours = {name.lower(): name for name in known}
        for name in self._given:
            if name in ours or name.startswith((KAFKA, *prefixes)):
                continue
            if close := get_close_matches(name, ours, 1, _CLOSE):
                raise BadOption(f"there is no option '{name}'; '{ours[close[0]]}' is meant?")
