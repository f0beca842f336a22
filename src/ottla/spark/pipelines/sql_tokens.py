"""Pipeline SQL cut into tokens: just enough of Spark's rules to know strings, comments and names from the rest."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto

from ottla.spark.pipelines.definitions import Fault, Faulty, Place


class Kind(Enum):
    WORD = auto()
    QUOTED_NAME = auto()
    STRING = auto()
    NUMBER = auto()
    SIGN = auto()
    END = auto()


@dataclass(frozen=True, slots=True)
class Token:
    kind: Kind
    text: str
    start: int
    end: int
    place: Place

    def is_word(self, *words: str) -> bool:
        return self.kind is Kind.WORD and self.text.upper() in words

    def is_sign(self, sign: str) -> bool:
        return self.kind is Kind.SIGN and self.text == sign

    def value(self) -> str:
        """What a name, string or number stands for."""
        match self.kind:
            case Kind.STRING:
                quote = self.text[0]
                return _ESCAPE.sub(_unescaped, self.text[1:-1].replace(quote * 2, quote))
            case Kind.QUOTED_NAME:
                return self.text[1:-1].replace("``", "`")
            case _:
                return self.text


_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "b": "\b"}

_TOKEN = re.compile(
    r"""
    (?P<space>\s+|--[^\n]*)
  | (?P<comment>/\*)
  | (?P<string>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")
  | (?P<name>`(?:[^`]|``)*`)
  | (?P<number>\d+(?:\.\d+)?)
  | (?P<word>[^\W\d]\w*)
  | (?P<sign>[^\s])
    """,
    re.VERBOSE | re.DOTALL,
)
_KINDS = {
    "string": Kind.STRING,
    "name": Kind.QUOTED_NAME,
    "number": Kind.NUMBER,
    "word": Kind.WORD,
    "sign": Kind.SIGN,
}
_UNCLOSED = {"'": "this string has no end", '"': "this string has no end", "`": "this name has no end"}


def _unescaped(match: re.Match[str]) -> str:
    return _ESCAPES.get(match[1], match[1])


def tokens(text: str, file: str) -> Iterator[Token]:
    """All tokens of a file, and an END behind them."""
    at, line, line_start = 0, 1, 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        assert found is not None, "the last alternative takes any character"
        place = Place(file, line, at - line_start + 1)
        kind, end = found.lastgroup or "", found.end()
        if kind == "comment":
            end = _comment_end(text, at, place)
        elif kind == "sign" and found[0] in _UNCLOSED:
            raise Faulty(Fault(place, _UNCLOSED[found[0]]))
        elif kind != "space":
            yield Token(_KINDS[kind], found[0], at, end, place)
        newlines = text.count("\n", at, end)
        if newlines:
            line += newlines
            line_start = text.rindex("\n", at, end) + 1
        at = end
    yield Token(Kind.END, "", at, at, Place(file, line, at - line_start + 1))


_BRACKET = re.compile(r"/\*|\*/")


def _comment_end(text: str, start: int, place: Place) -> int:
    """Comments in brackets may hold comments in brackets."""
    depth = 0
    for bracket in _BRACKET.finditer(text, start):
        depth += 1 if bracket[0] == "/*" else -1
        if depth == 0:
            return bracket.end()
    raise Faulty(Fault(place, "this comment has no end"))
