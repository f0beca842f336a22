"""What a setting is: a row with Kafka's name, a kind, a default, a check and a sentence of documentation.

Validation, DescribeConfigs, the configuration file and the documentation are all derived from the rows in
`topic_settings` and `broker_settings`; a new setting is one row there.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum

Value = bool | int | float | str | tuple[str, ...] | None


class Kind(IntEnum):
    """How a value is written; the numbers are those of DescribeConfigs."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Reach(IntEnum):
    """Who may change a broker setting while the node runs."""

    READ_ONLY = 0
    PER_BROKER = 1
    CLUSTER_WIDE = 2


class BadSetting(ValueError):
    """A value that a setting does not take; the text names the setting and says what it takes."""


Check = Callable[[Value], str | None]
"""Returns what is wrong, or None."""

_BOUNDS = {Kind.INT: 31, Kind.SHORT: 15, Kind.LONG: 63}


@dataclass(frozen=True, slots=True)
class Setting:
    name: str
    kind: Kind
    default: str | None
    doc: str
    check: Check | None = None
    synonyms: tuple[str, ...] = ()
    """For a topic setting: the broker settings that give its default, strongest first."""
    reach: Reach = Reach.READ_ONLY

    @property
    def is_sensitive(self) -> bool:
        return self.kind is Kind.PASSWORD

    @property
    def field(self) -> str:
        return self.name.replace(".", "_")

    def shown(self, text: str | None) -> str | None:
        """How a valid value is shown: without the spaces and capitals that writing it allows; a secret not at all."""
        if text is None or self.is_sensitive:
            return None
        value = self.parse(text)
        if isinstance(value, tuple):
            return ",".join(value)
        if isinstance(value, bool):
            return "true" if value else "false"
        return str(value) if isinstance(value, int) else text.strip()

    def parse(self, text: str | None) -> Value:
        """The typed value of `text`; raises BadSetting."""
        if text is None:
            if self.default is None:
                return None
            raise BadSetting(f"{self.name} needs a value")
        try:
            value = _PARSERS[self.kind](text.strip())
        except ValueError:
            raise BadSetting(
                f"{self.name} takes a value of kind {self.kind.name.lower()}, not {text[:100]!r}"
            ) from None
        bits = _BOUNDS.get(self.kind)
        if bits is not None and isinstance(value, int) and not -(1 << bits) <= value < (1 << bits):
            raise BadSetting(
                f"{self.name} takes a value of kind {self.kind.name.lower()}, {text[:100]} is out of range"
            )
        wrong = self.check(value) if self.check is not None else None
        if wrong is not None:
            raise BadSetting(f"{self.name} {wrong}, not {text[:100]!r}")
        return value


def _parse_bool(text: str) -> bool:
    lowered = text.lower()
    if lowered not in ("true", "false"):
        raise ValueError(text)
    return lowered == "true"


def _parse_int(text: str) -> int:
    # int() also takes underscores and other scripts' digits, which no other Kafka tool would understand.
    if not text.isascii() or "_" in text:
        raise ValueError(text)
    return int(text)


def _parse_float(text: str) -> float:
    value = float(text)
    if value != value or value in (float("inf"), float("-inf")):
        raise ValueError(text)
    return value


def _parse_list(text: str) -> tuple[str, ...]:
    return tuple(item.strip() for item in text.split(",")) if text else ()


def _parse_text(text: str) -> str:
    return text


_PARSERS: dict[Kind, Callable[[str], Value]] = {
    Kind.UNKNOWN: _parse_text,
    Kind.BOOLEAN: _parse_bool,
    Kind.STRING: _parse_text,
    Kind.INT: _parse_int,
    Kind.SHORT: _parse_int,
    Kind.LONG: _parse_int,
    Kind.DOUBLE: _parse_float,
    Kind.LIST: _parse_list,
    Kind.CLASS: _parse_text,
    Kind.PASSWORD: _parse_text,
}


def at_least(low: float) -> Check:
    return lambda value: None if isinstance(value, int | float) and value >= low else f"must be at least {low}"


def between(low: float, high: float) -> Check:
    def check(value: Value) -> str | None:
        if isinstance(value, int | float) and low <= value <= high:
            return None
        return f"must be between {low} and {high}"

    return check


def one_of(*allowed: str) -> Check:
    return lambda value: None if value in allowed else f"must be one of {', '.join(allowed)}"


def each_of(*allowed: str) -> Check:
    def check(value: Value) -> str | None:
        if isinstance(value, tuple) and all(item in allowed for item in value):
            return None
        return f"must be a list of values among {', '.join(allowed)}"

    return check


def rows_by_name(rows: Iterable[Setting]) -> dict[str, Setting]:
    return {row.name: row for row in rows}


def typed(rows: Mapping[str, Setting], texts: Mapping[str, str]) -> dict[str, Value]:
    """Every row's value by field name: what `texts` says, or the default."""
    return {row.field: row.parse(texts.get(name, row.default)) for name, row in rows.items()}
