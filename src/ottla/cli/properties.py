"""Settings from text: Kafka-style properties, TOML, and `name=value` arguments. All give a flat mapping of texts."""

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ottla.cli.failure import Failed, Misused

_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_PAIR = re.compile(r"((?:\\.|[^\\=:\s])*)(?:\s*[=:]\s*|\s+|$)(.*)", re.DOTALL)


def read_settings(path: Path) -> dict[str, str]:
    """The settings of a file: TOML if it is named so, else properties."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as failure:
        raise Failed(f"cannot read {path}: {failure.strerror}") from None
    except UnicodeDecodeError:
        raise Failed(f"{path} is not UTF-8 text") from None
    if path.suffix.lower() != ".toml":
        return parse_properties(text)
    try:
        return dict(flatten(tomllib.loads(text)))
    except (tomllib.TOMLDecodeError, ValueError) as failure:
        raise Failed(f"{path}: {failure}") from None


def parse_properties(text: str) -> dict[str, str]:
    """Java's properties format: comments, continued lines, escapes, and any of `=`, `:` or blanks between the two."""
    settings = {}
    for line in _logical_lines(text):
        match = _PAIR.match(line)
        if match is not None:
            name, value = match.groups()
            settings[_unescape(name)] = _unescape(value).rstrip()
    return settings


def _logical_lines(text: str) -> Iterator[str]:
    held = ""
    for line in text.splitlines():
        line = line.lstrip()
        if not held and (not line or line[0] in "#!"):
            continue
        held += line
        if (len(held) - len(held.rstrip("\\"))) % 2:
            held = held[:-1]
            continue
        yield held
        held = ""
    if held:
        yield held


def _unescape(text: str) -> str:
    def replace(match: re.Match[str]) -> str:
        escaped = match[1]
        return chr(int(escaped[1:], 16)) if len(escaped) == 5 else _ESCAPES.get(escaped, escaped)

    return _ESCAPE.sub(replace, text)


def flatten(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """`[log] retention.ms = 5` and `"log.retention.ms" = 5` say the same."""
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from flatten(value, f"{prefix}{name}.")
        else:
            yield prefix + name, _text_of(f"{prefix}{name}", value)


def _text_of(name: str, value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case str() | int() | float():
            return str(value)
        case list():
            return ",".join(_text_of(name, item) for item in value)
    raise ValueError(f"{name} cannot be a {type(value).__name__}")


def parse_pairs(pairs: Iterable[str] | None, option: str) -> dict[str, str]:
    """`--set a=1 --set b=2`; the last of two equal names wins."""
    settings = {}
    for pair in pairs or ():
        name, separator, value = pair.partition("=")
        if not separator or not name.strip():
            raise Misused(f"{option} takes NAME=VALUE, not {pair!r}")
        settings[name.strip()] = value
    return settings
