"""Lines of JSON for Arrow's reader, which counts lines and crashes on some that are no objects: one object each, or {}.

It looks at the structure only: quotes, brackets and what no JSON may contain. Whether names, numbers and commas are in
their places is for the reader to find out.
"""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ottla.spark.arrow.columns import Blobs
from ottla.spark.arrow.compiled import byte_at, compiled, inlined, set_byte

Bytes: TypeAlias = NDArray[np.uint8]
Int: TypeAlias = Any
"""An integer of the machine, which a checker cannot follow."""

OBJECT, NULL, EMPTY, NOT_OBJECT, ENDS_EARLY, MORE_BEHIND, TOO_DEEP, FORBIDDEN = range(8)
NESTING_MAX = 100

_QUOTE, _BACKSLASH, _SPACE, _NEWLINE = ord('"'), ord("\\"), ord(" "), ord("\n")
_OPENING, _CLOSING = (ord("{"), ord("[")), (ord("}"), ord("]"))
_NOT_A_NUMBER, _INFINITY = ord("N"), ord("I")


@inlined
def _is_blank(byte: Int) -> Int:
    return byte == 32 or byte == 10 or byte == 13 or byte == 9


@inlined
def _copied(source: Int, start: Int, end: Int, out: Int, to: Int) -> tuple[Int, Int]:
    """Copy one object, its line breaks made blanks; the kind of line it is, and where in `out` it ends."""
    at = start
    while at < end and _is_blank(byte_at(source, at)):
        at += 1
    if at == end:
        return EMPTY, to
    if byte_at(source, at) != _OPENING[0]:
        return NOT_OBJECT, to
    depth, is_text = np.int64(0), False
    while at < end:
        byte = byte_at(source, at)
        if is_text:
            if byte == _BACKSLASH and at + 1 < end:
                set_byte(out, to, byte)
                at += 1
                to += 1
                byte = byte_at(source, at)
            elif byte == _QUOTE:
                is_text = False
            if byte < 32:
                return FORBIDDEN, to
        elif byte == _QUOTE:
            is_text = True
        elif byte == _OPENING[0] or byte == _OPENING[1]:
            depth += 1
            if depth > NESTING_MAX:
                return TOO_DEEP, to
        elif byte == _CLOSING[0] or byte == _CLOSING[1]:
            depth -= 1
        elif byte < 33:
            if not _is_blank(byte):
                return FORBIDDEN, to
            byte = np.uint8(_SPACE)
        elif byte in (_NOT_A_NUMBER, _INFINITY):
            return FORBIDDEN, to
        set_byte(out, to, byte)
        at += 1
        to += 1
        if depth == 0:
            break
    if depth:
        return ENDS_EARLY, to
    while at < end:
        if not _is_blank(byte_at(source, at)):
            return MORE_BEHIND, to
        at += 1
    return OBJECT, to


@compiled
def lines_of(
    blobs: Blobs,
    is_there: NDArray[np.uint8],
    kinds: NDArray[np.uint8],
    ends: NDArray[np.int64],
    lines: NDArray[np.uint8],
) -> None:
    """One line for every row: its object, or {} where there is none; `kinds` says which, `ends` where it ends.

    `lines` has room for all bytes of the column, and three more for every row.
    """
    source, out = np.int64(blobs.data.ctypes.data), np.int64(lines.ctypes.data)
    to = np.int64(0)
    for row in range(len(kinds)):
        start = to
        kind = np.int64(NULL)
        if is_there[row]:
            kind, to = _copied(source, np.int64(blobs.bounds[row]), np.int64(blobs.bounds[row + 1]), out, to)
        kinds[row] = kind
        if kind != OBJECT:
            to = start + 2
            set_byte(out, start, np.uint8(_OPENING[0]))
            set_byte(out, start + 1, np.uint8(_CLOSING[0]))
        set_byte(out, to, np.uint8(_NEWLINE))
        to += 1
        ends[row] = to


def why_not(kind: int, content: bytes) -> str:
    """In words, for a row that is none."""
    start = content.strip()[:20].decode("utf-8", "replace")
    words = {
        EMPTY: "empty, where a JSON object is needed",
        NOT_OBJECT: f"no JSON object: it starts with {start!r}",
        ENDS_EARLY: "the JSON object ends early",
        MORE_BEHIND: "more than one JSON object",
        TOO_DEEP: f"JSON nested deeper than {NESTING_MAX} levels",
        FORBIDDEN: "not JSON: a control character, or a number that is NaN or infinite",
    }
    return words[kind]
