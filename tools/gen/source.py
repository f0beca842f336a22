"""Source text under construction: lines with an indentation, and the precompiled structs a module has asked for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tools.gen.layout import ClassField
from tools.gen.model import FIXED_SIZES, snake

RESERVED = {"at", "buf", "count", "end", "m", "n", "out", "raw", "size", "tag", "part", "tags", "body"}
PYTHON_TYPES = {
    "bool": "bool",
    "float64": "float",
    "string": "str",
    "bytes": "bytes",
    "uuid": "bytes",
    "records": "Records",
}


class Source:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.structs: set[tuple[str, ...]] = set()
        self.packers: set[tuple[str, ...]] = set()
        self.names: set[str] = set()
        self._depth = 0

    def add(self, line: str = "") -> None:
        self.lines.append("    " * self._depth + line if line else "")

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        self.add(head)
        self._depth += 1
        yield
        self._depth -= 1

    def use(self, name: str) -> str:
        """A name from primitives that the module must import."""
        self.names.add(name)
        return name

    def unpacker(self, formats: list[str]) -> str:
        self.structs.add(tuple(formats))
        return "_u_" + struct_name(formats)

    def packer(self, formats: list[str]) -> str:
        self.packers.add(tuple(formats))
        return "_p_" + struct_name(formats)


def struct_name(formats: list[str] | tuple[str, ...]) -> str:
    return "".join({"?": "t", "16s": "u"}.get(f, f) for f in formats)


def struct_size(formats: list[str]) -> int:
    return sum(FIXED_SIZES[f] for f in formats)


def local(name: str) -> str:
    return name + "_" if name in RESERVED else name


def python_type(f: ClassField) -> str:
    element = f.struct or PYTHON_TYPES.get(f.kind, "int")
    text = f"list[{element}]" if f.array else element
    return f"{text} | None" if f.nullable and text != "Records" else text


def default_text(f: ClassField) -> str:
    """The default in the signature; NEW where every object needs its own."""
    if f.shared_default:
        return f"{snake(f.struct).upper()}_DEFAULT"
    if f.array:
        return "None" if f.default == "None" else "NEW"
    if f.default is not None:
        return f.default.replace("'", '"')
    if f.nullable:
        return "None"
    natural = {
        "bool": "False",
        "float64": "0.0",
        "string": '""',
        "bytes": 'b""',
        "records": 'b""',
        "uuid": "ZERO_UUID",
    }
    return "NEW" if f.kind == "struct" else natural.get(f.kind, "0")


def fresh_default(f: ClassField) -> str:
    """The same default as an expression for an attribute."""
    text = default_text(f)
    if text != "NEW":
        return text
    return "[]" if f.array else f"{f.struct}()"
