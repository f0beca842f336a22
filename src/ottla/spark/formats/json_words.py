"""The words of JSON, for the kernels of `json_read_kernels`: where each ends, and what it means.

A position of -1 is that of what is no JSON, or too rare to be worth it. These parts have no cache of their own: the
kernels that call them are compiled anew when their own module changes, which a test demands where this one does.
"""

from typing import Any, TypeAlias

import numpy as np

from ottla.spark.arrow.compiled import byte_at, inlined, long_at, part, set_byte

Int: TypeAlias = Any
"""An integer of the machine, which a checker cannot follow."""

DIGITS_MAX = 18

_QUOTE, _BACKSLASH, _COLON, _COMMA, _POINT, _MINUS, _PLUS, _ZERO = 34, 92, 58, 44, 46, 45, 43, 48
_OPEN, _CLOSE, _OPEN_LIST, _CLOSE_LIST = 123, 125, 91, 93
_U, _E, _CAPITAL_T, _CAPITAL_Z, _BLANK = 117, 101, 84, 90, 32
_DEPTH_MAX = 60
_LONG_DIGITS = 200
_NOT_ASCII = -0x7F7F7F7F7F7F7F80
_LETTERS = np.zeros(128, np.uint8)
"""What a letter behind a backslash stands for."""
for _letter, _byte in zip(b'"\\/bfnrt', b'"\\/\b\f\n\r\t', strict=True):
    _LETTERS[_letter] = _byte
_SIXES = np.full(128, 255, np.uint8)
for _six, _letter in enumerate(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"):
    _SIXES[_letter] = _six
_DAY = 86_400_000_000


@inlined
def behind_blanks(data: Int, at: Int, end: Int) -> Int:
    while at < end:
        byte = byte_at(data, at)
        if byte != 32 and byte != 10 and byte != 13 and byte != 9:
            break
        at += 1
    return np.int64(at)


@inlined
def is_digit(byte: Int) -> Int:
    return byte >= _ZERO and byte <= _ZERO + 9


@part
def is_text(data: Int, at: Int, end: Int) -> Int:
    """Whether the bytes are UTF-8, as the standard has it: shortest forms alone, no surrogates."""
    while at < end:
        if end - at >= 8 and not long_at(data, at) & np.int64(_NOT_ASCII):
            at += 8
            continue
        byte = byte_at(data, at)
        at += 1
        if byte < 0x80:
            continue
        low, high, more = np.int64(0x80), np.int64(0xBF), np.int64(1)
        if byte < 0xC2 or byte > 0xF4:
            return False
        if byte >= 0xF0:
            more = np.int64(3)
            low = np.int64(0x90) if byte == 0xF0 else low
            high = np.int64(0x8F) if byte == 0xF4 else high
        elif byte >= 0xE0:
            more = np.int64(2)
            low = np.int64(0xA0) if byte == 0xE0 else low
            high = np.int64(0x9F) if byte == 0xED else high
        if end - at < more:
            return False
        for _ in range(more):
            follows = byte_at(data, at)
            if follows < low or follows > high:
                return False
            low, high = np.int64(0x80), np.int64(0xBF)
            at += 1
    return True


@part
def _hex(data: Int, at: Int, end: Int) -> Int:
    """Four digits, or -1."""
    if end - at < 4:
        return np.int64(-1)
    found = np.int64(0)
    for index in range(4):
        byte = np.int64(byte_at(data, at + index))
        if is_digit(byte):
            found = found << 4 | byte - _ZERO
        elif 97 <= byte | 32 <= 102:
            found = found << 4 | (byte | 32) - 87
        else:
            return np.int64(-1)
    return found


@part
def behind_text(data: Int, at: Int, end: Int) -> tuple[Int, Int]:
    """The position behind a text, which begins at its first quote, or -1; and whether there are escapes in it."""
    at += 1
    has_escapes = False
    while at < end:
        byte = byte_at(data, at)
        if byte == _QUOTE:
            return np.int64(at + 1), has_escapes
        if byte < 32:
            break
        at += 1
        if byte != _BACKSLASH:
            continue
        has_escapes = True
        if at >= end:
            break
        letter = byte_at(data, at)
        at += 1
        if letter == _U:
            code = _hex(data, at, end)
            at += 4
            if 0xD800 <= code <= 0xDBFF and end - at > 6:
                is_pair = byte_at(data, at) == _BACKSLASH and byte_at(data, at + 1) == _U
                code = _hex(data, at + 2, end) - 0xDC00 if is_pair else np.int64(-1)
                code = code if code < 0x400 else np.int64(-1)
                at += 6
            if code < 0 or 0xD800 <= code <= 0xDFFF:
                break
        elif letter > 127 or not _LETTERS[letter]:
            break
    return np.int64(-1), has_escapes


@part
def _put_code(out: Int, to: Int, code: Int) -> Int:
    """A character in UTF-8."""
    if code < 0x80:
        set_byte(out, to, np.uint8(code))
        return np.int64(to + 1)
    more = np.int64(1) if code < 0x800 else np.int64(2) if code < 0x10000 else np.int64(3)
    mark = np.int64(0xC0) if more == 1 else np.int64(0xE0) if more == 2 else np.int64(0xF0)
    set_byte(out, to, np.uint8(mark | code >> 6 * more))
    for index in range(1, more + 1):
        set_byte(out, to + index, np.uint8(0x80 | code >> 6 * (more - index) & 0x3F))
    return np.int64(to + more + 1)


@part
def unescaped(data: Int, at: Int, end: Int, out: Int) -> Int:
    """Write a text that has been looked at, from `at` on in the copy; its size, which is never more than it was."""
    to = np.int64(at)
    start = to
    while at < end:
        byte = byte_at(data, at)
        at += 1
        if byte != _BACKSLASH:
            set_byte(out, to, byte)
            to += 1
            continue
        letter = byte_at(data, at)
        at += 1
        if letter != _U:
            set_byte(out, to, _LETTERS[letter])
            to += 1
            continue
        code = _hex(data, at, end)
        at += 4
        if 0xD800 <= code <= 0xDBFF:
            code = 0x10000 + ((code - 0xD800) << 10) + _hex(data, at + 2, end) - 0xDC00
            at += 6
        to = _put_code(out, to, code)
    return to - start


@part
def behind_number(data: Int, at: Int, end: Int) -> tuple[Int, Int]:
    """The position behind a number, or -1; and whether it has neither fraction nor exponent."""
    start, is_whole = at, True
    if at < end and byte_at(data, at) == _MINUS:
        at += 1
    first = at
    while at < end and is_digit(byte_at(data, at)):
        at += 1
    if at == first or (at - first > 1 and byte_at(data, first) == _ZERO):
        return np.int64(-1), is_whole
    if at < end and byte_at(data, at) == _POINT:
        is_whole, at = False, at + 1
        first = at
        while at < end and is_digit(byte_at(data, at)):
            at += 1
        if at == first:
            return np.int64(-1), is_whole
    if at < end and byte_at(data, at) | 32 == _E:
        is_whole, at = False, at + 1
        if at < end and (byte_at(data, at) == _MINUS or byte_at(data, at) == _PLUS):
            at += 1
        first = at
        while at < end and is_digit(byte_at(data, at)):
            at += 1
        if at == first or at - first > 2:
            return np.int64(-1), is_whole
    return np.int64(-1) if at - start > _LONG_DIGITS else np.int64(at), is_whole


@part
def _behind_word(data: Int, at: Int, end: Int) -> Int:
    """The position behind null, true or false, or -1."""
    word = np.int64(0)
    for index in range(min(end - at, 4)):
        word = word << 8 | np.int64(byte_at(data, at + index))
    if word == 0x6E756C6C or word == 0x74727565:  # null, true
        return np.int64(at + 4)
    if word == 0x66616C73 and end - at > 4 and byte_at(data, at + 4) == _E:
        return np.int64(at + 5)
    return np.int64(-1)


@part
def _behind_scalar(data: Int, at: Int, end: Int) -> Int:
    if at >= end:
        return np.int64(-1)
    byte = byte_at(data, at)
    if byte == _QUOTE:
        at, _ = behind_text(data, at, end)
    elif byte == _MINUS or is_digit(byte):
        at, _ = behind_number(data, at, end)
    else:
        at = _behind_word(data, at, end)
    return np.int64(at)


@part
def _behind_name(data: Int, at: Int, end: Int) -> Int:
    """The position behind a name and its colon, or -1."""
    at = behind_blanks(data, at, end)
    if at >= end or byte_at(data, at) != _QUOTE:
        return np.int64(-1)
    at, _ = behind_text(data, at, end)
    if at < 0:
        return np.int64(-1)
    at = behind_blanks(data, at, end)
    return np.int64(at + 1) if at < end and byte_at(data, at) == _COLON else np.int64(-1)


@part
def behind_value(data: Int, at: Int, end: Int) -> Int:
    """The position behind a value of any kind, or -1."""
    depth, objects = np.int64(0), np.int64(0)
    while True:
        at = behind_blanks(data, at, end)
        byte = byte_at(data, at) if at < end else np.uint8(0)
        if byte == _OPEN or byte == _OPEN_LIST:  # noqa: SIM109
            depth += 1
            objects = objects << 1 | np.int64(byte == _OPEN)
            if depth > _DEPTH_MAX:
                return np.int64(-1)
            at = behind_blanks(data, at + 1, end)
            closing = _CLOSE if byte == _OPEN else _CLOSE_LIST
            if at >= end or byte_at(data, at) != closing:
                at = _behind_name(data, at, end) if byte == _OPEN else at
                if at < 0:
                    return np.int64(-1)
                continue
        else:
            at = _behind_scalar(data, at, end)
            if at < 0:
                return np.int64(-1)
        while depth > 0:
            at = behind_blanks(data, at, end)
            byte = byte_at(data, at) if at < end else np.uint8(0)
            at += 1
            if byte == _COMMA:
                break
            if byte != (_CLOSE if objects & 1 else _CLOSE_LIST):
                return np.int64(-1)
            depth -= 1
            objects >>= 1
        if depth == 0:
            return np.int64(at)
        at = _behind_name(data, at, end) if objects & 1 else at
        if at < 0:
            return np.int64(-1)


@inlined
def _digits(data: Int, at: Int, count: Int) -> Int:
    """A number of so many digits, or -1."""
    found = np.int64(0)
    for index in range(count):
        byte = byte_at(data, at + index)
        if not is_digit(byte):
            return np.int64(-1)
        found = 10 * found + np.int64(byte) - _ZERO
    return found


@part
def integer_of(data: Int, at: Int, end: Int, least: Int, most: Int) -> tuple[Int, Int]:
    """What a number that has been looked at comes to, and whether it is one that may be."""
    is_negative = byte_at(data, at) == _MINUS
    at += np.int64(is_negative)
    if end - at > 19:
        return np.int64(0), False
    found = np.uint64(0)
    for index in range(at, end):
        found = found * np.uint64(10) + np.uint64(byte_at(data, index) - _ZERO)
    if is_negative:
        return -np.int64(found), found <= np.uint64(most) + np.uint64(1)
    return np.int64(found), found <= np.uint64(most)


@part
def decimal_of(data: Int, at: Int, end: Int, digits: Int, scale: Int) -> tuple[Int, Int]:
    """A decimal as a whole number of its smallest parts; False for what is not plain, or does not fit."""
    is_negative = at < end and byte_at(data, at) == _MINUS
    at += np.int64(is_negative)
    found, count, behind = np.int64(0), np.int64(0), np.int64(-1)
    if at >= end or not is_digit(byte_at(data, at)):
        return found, False
    for index in range(at, end):
        byte = byte_at(data, index)
        if byte == _POINT and behind < 0:
            behind = np.int64(0)
            continue
        if not is_digit(byte) or count == DIGITS_MAX:
            return found, False
        found = 10 * found + np.int64(byte) - _ZERO
        count += np.int64(found > 0)
        behind += np.int64(behind >= 0)
    behind = max(behind, np.int64(0))
    if behind > scale or byte_at(data, end - 1) == _POINT or count + scale - behind > min(digits, DIGITS_MAX):
        return found, False
    for _ in range(scale - behind):
        found *= 10
    return -found if is_negative else found, True


@part
def day_of(data: Int, at: Int) -> Int:
    """The day, since 1970, of a date in ten bytes; a very small number for what is none."""
    none = np.int64(-(2**62))
    year, month, day = _digits(data, at, 4), _digits(data, at + 5, 2), _digits(data, at + 8, 2)
    if year < 1 or not 1 <= month <= 12 or day < 1:
        return none
    if byte_at(data, at + 4) != _MINUS or byte_at(data, at + 7) != _MINUS:
        return none
    is_leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    last = 30 + (month + month // 8) % 2
    if month == 2:
        last = 29 if is_leap else 28
    if day > last:
        return none
    shifted = year - np.int64(month <= 2)  # years that begin in March
    era = shifted // 400
    of_era = shifted - 400 * era
    of_year = (153 * (month - 3 if month > 2 else month + 9) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468


@part
def time_of(data: Int, at: Int, end: Int, may_have_zone: Int) -> tuple[Int, Int]:
    """Microseconds since 1970 of a date and a time, with a Z behind it at most; False for what is not plain."""
    if may_have_zone and end > at and byte_at(data, end - 1) == _CAPITAL_Z:
        end -= 1
    if end - at < 19 or end - at > 26 or end - at == 20:
        return np.int64(0), False
    day, separator = day_of(data, at), byte_at(data, at + 10)
    hour, minute, second = _digits(data, at + 11, 2), _digits(data, at + 14, 2), _digits(data, at + 17, 2)
    if day < -(2**61) or (separator != _CAPITAL_T and separator != _BLANK):
        return np.int64(0), False
    if byte_at(data, at + 13) != _COLON or byte_at(data, at + 16) != _COLON:
        return np.int64(0), False
    if not 0 <= hour < 24 or not 0 <= minute < 60 or not 0 <= second < 60:
        return np.int64(0), False
    micros = np.int64(0)
    if end - at > 19:
        micros = _digits(data, at + 20, end - at - 20)
        if byte_at(data, at + 19) != _POINT or micros < 0:
            return np.int64(0), False
        for _ in range(26 - (end - at)):
            micros *= 10
    return day * _DAY + (hour * 3600 + minute * 60 + second) * 1_000_000 + micros, True


@part
def bytes_of(data: Int, at: Int, end: Int, out: Int) -> Int:
    """Write the bytes from `at` on in the copy; their number, or -1 for what is not plain."""
    if (end - at) % 4:
        return np.int64(-1)
    start, to = at, np.int64(at)
    padding = np.int64(0)
    while end > start and padding < 2 and byte_at(data, end - 1 - padding) == 61:
        padding += 1
    for index in range(at, end, 4):
        bits = np.int64(0)
        for place in range(4):
            byte = byte_at(data, index + place)
            six = _SIXES[byte] if byte < 128 else np.uint8(255)
            if index + place >= end - padding:
                six = np.uint8(0)
            if six == 255:
                return np.int64(-1)
            bits = bits << 6 | np.int64(six)
        for place in range(3):
            set_byte(out, to + place, np.uint8(bits >> 16 - 8 * place & 255))
        to += 3
    return to - start - padding
