"""What every generated codec stands on: the output buffer, the rare paths of varints and tags, the message base class.

The generated code reads lazily: a slice that runs past the end of the buffer is short, and whatever is read after it
fails; the check that `Message.decode` makes at the end catches the rest. Only element counts are checked before use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from struct import Struct, error
from typing import Any, ClassVar, Protocol, Self, TypeVar

from ottla.wire.malformed import Malformed as Malformed

NEVER_FLEXIBLE = 0x8000  # beyond every int16
NEW: Any = type("New", (), {"__repr__": lambda _: "NEW", "__slots__": ()})()
"""Stands in a signature for a fresh list or a fresh nested message."""

REQUEST_ELEMENTS_MAX = 200_000
RESPONSE_ELEMENTS_MAX = 5_000_000
"""Array elements of one message: three bytes of a frame may become 130 of memory, so the frame's size is no bound."""

_UVARINT_BITS_MAX = 28
_READ_ERRORS = (error, IndexError, UnicodeDecodeError)
_pack_int16 = Struct(">h").pack
_pack_int32 = Struct(">i").pack
_unpack_int16 = Struct(">h").unpack_from


class Slices(Protocol):
    """Bytes that stay where they are (in a file) until the socket asks for them."""

    @property
    def size(self) -> int: ...


class Buffer(bytearray):
    """Encoded bytes; a hole is a place where `Slices` of a known size will be sent without being copied here."""

    __slots__ = ("holes",)

    def __init__(self) -> None:
        super().__init__()
        self.holes: list[tuple[int, Slices]] = []


class Message:
    """Base of all generated classes: value equality, a readable form, and for whole messages the choice by version."""

    __slots__: tuple[str, ...] = ()
    API_KEY: ClassVar[int] = -1
    ELEMENTS_MAX: ClassVar[int] = RESPONSE_ELEMENTS_MAX
    READERS: ClassVar[Mapping[int, Callable[[memoryview, int], tuple[Any, int]]]] = {}
    WRITERS: ClassVar[Mapping[int, Callable[[Any, Buffer], None]]] = {}

    @classmethod
    def decode(cls, buf: memoryview, at: int, version: int) -> tuple[Self, int]:
        """Read one message at `at`; returns it and the position behind it."""
        reader = cls.READERS.get(version)
        if reader is None:
            raise Malformed(f"{cls.__name__} has no version {version}")
        _allowance.elements = cls.ELEMENTS_MAX
        try:
            message, at = reader(buf, at)
        except _READ_ERRORS as broken:
            raise Malformed(f"{cls.__name__} v{version}: {broken}") from broken
        if at > len(buf):
            raise Malformed(f"{cls.__name__} v{version} ends {at - len(buf)} bytes behind the end of its frame")
        return message, at

    def encode(self, out: Buffer, version: int) -> None:
        """Append this message; fields that `version` lacks are left out."""
        self.WRITERS[version](self, out)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, type(self)) and not isinstance(self, type(other)):
            return NotImplemented  # a shared default is of a subclass, see `fixed`
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
        return f"{type(self).__name__}({fields})"


class _Allowance:
    """What is left of the elements that the message being decoded may have."""

    __slots__ = ("elements",)
    elements: int


_allowance = _Allowance()


def charge(count: int) -> None:
    """Called for arrays of more than a few elements; small ones are bounded by what holds them."""
    _allowance.elements -= count
    if _allowance.elements < 0:
        raise Malformed("more array elements than any real message has")


M = TypeVar("M", bound=Message)


def fixed(cls: type[M]) -> M:
    """The default of a tagged nested message: one instance shared by all, which therefore refuses to be changed."""

    def refuse(self: object, name: str, value: object) -> None:
        raise AttributeError(f"this {cls.__name__} is a shared default: assign a new one instead of setting {name!r}")

    default = cls()
    body = {"__slots__": (), "__setattr__": refuse, "__module__": cls.__module__}
    default.__class__ = type(cls.__name__, (cls,), body)
    type(default).__slots__ = cls.__slots__  # added nothing, but its fields are to be found
    return default


def rest_of_uvarint(buf: memoryview, at: int, first: int) -> tuple[int, int]:
    """Finish an unsigned varint whose first byte was `first`, with its continuation bit set."""
    value = first & 0x7F
    shift = 7
    while True:
        byte = buf[at]
        at += 1
        if byte < 0x80:
            return value | byte << shift, at
        value |= (byte & 0x7F) << shift
        shift += 7
        if shift > _UVARINT_BITS_MAX:
            raise Malformed("a varint of more than five bytes")


def read_uvarint(buf: memoryview, at: int) -> tuple[int, int]:
    first = buf[at]
    if first < 0x80:
        return first, at + 1
    return rest_of_uvarint(buf, at + 1, first)


def write_uvarint(out: bytearray, value: int) -> None:
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def skip_tags(buf: memoryview, at: int, count: int) -> int:
    """Step over tagged fields that nobody here knows (KIP-482); `count` is the first byte of their number."""
    if count > 0x7F:
        count, at = rest_of_uvarint(buf, at, count)
    for _ in range(count):
        _, at = read_uvarint(buf, at)
        size, at = read_uvarint(buf, at)
        at += size
    return at


def write_tag(tags: bytearray, tag: int, value: bytearray) -> None:
    write_uvarint(tags, tag)
    write_uvarint(tags, len(value))
    tags += value


def read_compact_strings(buf: memoryview, at: int, count: int) -> tuple[list[str], int]:
    strings: list[str] = []
    for _ in range(count):
        size, at = read_uvarint(buf, at)
        if not size:
            raise Malformed("an array of strings holds a null")
        strings.append(buf[at : at + size - 1].tobytes().decode())
        at += size - 1
    return strings, at


def read_strings(buf: memoryview, at: int, count: int) -> tuple[list[str], int]:
    strings: list[str] = []
    for _ in range(count):
        (size,) = _unpack_int16(buf, at)
        if size < 0:
            raise Malformed(f"an array of strings holds one of length {size}")
        at += 2
        strings.append(buf[at : at + size].tobytes().decode())
        at += size
    return strings, at


def write_compact_strings(out: bytearray, strings: list[str]) -> None:
    for string in strings:
        raw = string.encode()
        write_uvarint(out, len(raw) + 1)
        out += raw


def write_strings(out: bytearray, strings: list[str]) -> None:
    for string in strings:
        raw = string.encode()
        out += _pack_int16(len(raw))
        out += raw


Records = bytes | bytearray | memoryview | Slices | None


def write_records(out: Buffer, records: Records) -> None:
    """A records field before flexible versions: a plain int32 length."""
    if records is None:
        out += _pack_int32(-1)
    elif isinstance(records, (bytes, bytearray, memoryview)):
        out += _pack_int32(len(records))
        out += records
    else:
        out += _pack_int32(records.size)
        out.holes.append((len(out), records))


def write_compact_records(out: Buffer, records: Records) -> None:
    """A records field of a flexible version: an unsigned varint of the length plus one."""
    if records is None:
        out.append(0)
    elif isinstance(records, (bytes, bytearray, memoryview)):
        write_uvarint(out, len(records) + 1)
        out += records
    else:
        write_uvarint(out, records.size + 1)
        out.holes.append((len(out), records))
