"""Values into JSON: how long the text of each is, and putting it there.

Every text has a head in front, as `,"name":` is one.
"""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ottla.spark.arrow.compiled import byte_at, compiled, copy_bytes, inlined, set_byte

Longs: TypeAlias = NDArray[np.int64]
Ints: TypeAlias = NDArray[np.int32]
Bytes: TypeAlias = NDArray[np.uint8]
Int: TypeAlias = Any
"""An integer of the machine, which a checker cannot follow."""

# How a text is put: as it is, or in quotes: with what JSON wants escaped, with a T for the first blank, as base64.
BARE, QUOTED, ESCAPED, TIME, BASE64 = range(5)

_QUOTE, _BACKSLASH, _SPACE = 34, 92, 32
_DIGITS = np.frombuffer(b"0123456789abcdef", np.uint8)
_SHORT = np.zeros(128, np.uint8)
"""What stands behind the backslash; 0 for bytes that stay, u for those with a number."""
_SHORT[:_SPACE] = ord("u")
for _byte, _letter in (*zip(b"\b\t\n\f\r", b"btnfr", strict=True), (_QUOTE, _QUOTE), (_BACKSLASH, _BACKSLASH)):
    _SHORT[_byte] = _letter
_BASE64 = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", np.uint8)
_BY_NUMBER = ord("u")
_PADDING, _T, _ZERO = ord("="), ord("T"), ord("0")
_MINUS, _COLON, _POINT = ord("-"), ord(":"), ord(".")
_SECOND, _DAY = 1_000_000, 86_400_000_000
_TIME_BYTES = 28
"""In quotes, without a zone."""


@inlined
def _text_bytes(data: Int, start: Int, size: Int, how: Int) -> Int:
    if how == BARE:
        return np.int64(size)
    if how == BASE64:
        return np.int64((size + 2) // 3 * 4 + 2)
    total = np.int64(size + 2)
    if how == ESCAPED:
        for at in range(start, start + size):
            byte = byte_at(data, at)
            if byte < 128 and _SHORT[byte]:
                total += 5 if _SHORT[byte] == _BY_NUMBER else 1
    return total


@inlined
def _put_escaped(out: Int, to: Int, data: Int, start: Int, size: Int) -> Int:
    for at in range(start, start + size):
        byte = byte_at(data, at)
        letter = _SHORT[byte] if byte < 128 else np.uint8(0)
        if not letter:
            set_byte(out, to, byte)
            to += 1
            continue
        set_byte(out, to, np.uint8(_BACKSLASH))
        set_byte(out, to + 1, letter)
        to += 2
        if letter == _BY_NUMBER:
            set_byte(out, to, _DIGITS[0])
            set_byte(out, to + 1, _DIGITS[0])
            set_byte(out, to + 2, _DIGITS[byte >> 4])
            set_byte(out, to + 3, _DIGITS[byte & 15])
            to += 4
    return np.int64(to)


@inlined
def _put_base64(out: Int, to: Int, data: Int, start: Int, size: Int) -> Int:
    for at in range(start, start + size, 3):
        left = start + size - at
        bits = np.int64(byte_at(data, at)) << 16
        if left > 1:
            bits |= np.int64(byte_at(data, at + 1)) << 8
        if left > 2:
            bits |= np.int64(byte_at(data, at + 2))
        for index in range(4):
            letter = _BASE64[(bits >> (18 - 6 * index)) & 63]
            set_byte(out, to + index, letter if index <= left else np.uint8(_PADDING))
        to += 4
    return np.int64(to)


@inlined
def _put_text(out: Int, to: Int, data: Int, start: Int, size: Int, how: Int) -> Int:
    if how == BARE:
        copy_bytes(out, to, data, start, size)
        return np.int64(to + size)
    set_byte(out, to, np.uint8(_QUOTE))
    to += 1
    if how == ESCAPED:
        to = _put_escaped(out, to, data, start, size)
    elif how == BASE64:
        to = _put_base64(out, to, data, start, size)
    else:
        copy_bytes(out, to, data, start, size)
        if how == TIME:
            at = to
            while at < to + size and byte_at(out, at) != _SPACE:
                at += 1
            if at < to + size:
                set_byte(out, at, np.uint8(_T))
        to += size
    set_byte(out, to, np.uint8(_QUOTE))
    return np.int64(to + 1)


@compiled
def measure_texts(bounds: Ints, data: Bytes, is_live: Bytes, head_bytes: int, how: int, sizes: Longs) -> None:
    source = np.int64(data.ctypes.data)
    for row in range(len(sizes)):
        if is_live[row]:
            start = np.int64(bounds[row])
            sizes[row] += head_bytes + _text_bytes(source, start, np.int64(bounds[row + 1]) - start, how)


@compiled
def put_texts(bounds: Ints, data: Bytes, is_live: Bytes, head: Bytes, how: int, out: Bytes, cursors: Longs) -> None:
    source, target, name = np.int64(data.ctypes.data), np.int64(out.ctypes.data), np.int64(head.ctypes.data)
    for row in range(len(cursors)):
        if is_live[row]:
            at, start = cursors[row], np.int64(bounds[row])
            copy_bytes(target, at, name, 0, len(head))
            at += len(head)
            cursors[row] = _put_text(target, at, source, start, np.int64(bounds[row + 1]) - start, how)


@inlined
def _absolute(number: Int) -> Int:
    raw = np.uint64(number)
    return ~raw + np.uint64(1) if number < 0 else raw


@inlined
def _put_digits(out: Int, to: Int, number: Int, count: Int) -> Int:
    """So many digits, with zeros in front."""
    left = np.uint64(number)
    for index in range(count):
        set_byte(out, to + count - 1 - index, np.uint8(left % np.uint64(10) + np.uint64(_ZERO)))
        left //= np.uint64(10)
    return np.int64(to + count)


@inlined
def _digit_count(number: Int) -> Int:
    left, count = number, np.int64(1)
    while left >= np.uint64(10):
        left //= np.uint64(10)
        count += 1
    return count


@compiled
def measure_integers(values: Longs, is_live: Bytes, head_bytes: int, sizes: Longs) -> None:
    for row in range(len(sizes)):
        if is_live[row]:
            sizes[row] += head_bytes + _digit_count(_absolute(values[row])) + np.int64(values[row] < 0)


@compiled
def put_integers(values: Longs, is_live: Bytes, head: Bytes, out: Bytes, cursors: Longs) -> None:
    target, name = np.int64(out.ctypes.data), np.int64(head.ctypes.data)
    for row in range(len(cursors)):
        if is_live[row]:
            at = cursors[row]
            copy_bytes(target, at, name, 0, len(head))
            at += len(head)
            if values[row] < 0:
                set_byte(target, at, np.uint8(_MINUS))
                at += 1
            number = _absolute(values[row])
            cursors[row] = _put_digits(target, at, number, _digit_count(number))


@inlined
def _put_day(out: Int, to: Int, days: Int) -> Int:
    """A day since 1970 as in 2026-11-20, by years that begin in March: then the day of February comes last."""
    since = days + 719_468  # days from the first of March of the year 0
    era = since // 146_097  # of 400 years
    of_era = since - era * 146_097
    year = (of_era - of_era // 1_460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    month = (5 * of_year + 2) // 153
    to = _put_digits(out, to, year + 400 * era + np.int64(month >= 10), 4)
    set_byte(out, to, np.uint8(_MINUS))
    to = _put_digits(out, to + 1, month + 3 if month < 10 else month - 9, 2)
    set_byte(out, to, np.uint8(_MINUS))
    return _put_digits(out, to + 1, of_year - (153 * month + 2) // 5 + 1, 2)


@inlined
def _put_clock(out: Int, to: Int, micros: Int) -> Int:
    seconds = micros // _SECOND
    to = _put_digits(out, to, seconds // 3_600, 2)
    set_byte(out, to, np.uint8(_COLON))
    to = _put_digits(out, to + 1, seconds // 60 % 60, 2)
    set_byte(out, to, np.uint8(_COLON))
    to = _put_digits(out, to + 1, seconds % 60, 2)
    set_byte(out, to, np.uint8(_POINT))
    return _put_digits(out, to + 1, micros % _SECOND, 6)


@compiled
def measure_times(is_live: Bytes, head_bytes: int, zone_bytes: int, sizes: Longs) -> None:
    for row in range(len(sizes)):
        if is_live[row]:
            sizes[row] += head_bytes + _TIME_BYTES + zone_bytes


@compiled
def put_times(micros: Longs, is_live: Bytes, head: Bytes, zone: Bytes, out: Bytes, cursors: Longs) -> None:
    """Times of the years 0 to 9999."""
    target, name, behind = np.int64(out.ctypes.data), np.int64(head.ctypes.data), np.int64(zone.ctypes.data)
    for row in range(len(cursors)):
        if is_live[row]:
            at = cursors[row]
            copy_bytes(target, at, name, 0, len(head))
            at += len(head)
            set_byte(target, at, np.uint8(_QUOTE))
            days = micros[row] // _DAY
            at = _put_day(target, at + 1, days)
            set_byte(target, at, np.uint8(_T))
            at = _put_clock(target, at + 1, micros[row] - days * _DAY)
            copy_bytes(target, at, behind, 0, len(zone))
            at += len(zone)
            set_byte(target, at, np.uint8(_QUOTE))
            cursors[row] = at + 1


@compiled
def put_words(is_live: Bytes, word: Bytes, out: Bytes, cursors: Longs) -> None:
    """The same for all."""
    target, source = np.int64(out.ctypes.data), np.int64(word.ctypes.data)
    for row in range(len(cursors)):
        if is_live[row]:
            copy_bytes(target, cursors[row], source, 0, len(word))
            cursors[row] += len(word)


@compiled
def put_brackets(is_live: Bytes, starts: Longs, opening: int, closing: int, out: Bytes, cursors: Longs) -> None:
    """Around what begins with a comma, if there is anything: the bracket takes its place."""
    target = np.int64(out.ctypes.data)
    for row in range(len(starts)):
        if is_live[row]:
            set_byte(target, starts[row], np.uint8(opening))
            at = max(cursors[row], starts[row] + 1)
            set_byte(target, at, np.uint8(closing))
            cursors[row] = at + 1
