"""What the generator knows about a message, wherever it was read from: classes, fields, versions."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

FIXED_FORMATS = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
}
FIXED_SIZES = {"?": 1, "b": 1, "B": 1, "x": 1, "h": 2, "H": 2, "i": 4, "I": 4, "q": 8, "d": 8, "16s": 16}
NEVER_FLEXIBLE = 0x8000  # beyond every int16


@dataclass(frozen=True, slots=True)
class Field:
    """One field in one version. `default` is source text; None stands for the natural one of the kind."""

    name: str
    kind: str
    struct: str = ""
    array: bool = False
    nullable: bool = False
    tag: int | None = None
    default: str | None = None

    @property
    def fixed_format(self) -> str | None:
        return None if self.array else FIXED_FORMATS.get(self.kind)


@dataclass(frozen=True, slots=True)
class Shape:
    """One class as one version has it."""

    name: str
    flexible: bool
    fields: tuple[Field, ...]

    @property
    def regular(self) -> list[Field]:
        return [f for f in self.fields if f.tag is None]

    @property
    def tagged(self) -> list[Field]:
        return sorted((f for f in self.fields if f.tag is not None), key=lambda f: f.tag or 0)


@dataclass(slots=True)
class Message:
    """A request, response or record: for each version its shapes by class name, nested classes first."""

    name: str
    key: int | None = None
    versions: dict[int, dict[str, Shape]] = field(default_factory=dict)

    @property
    def flexible_from(self) -> int:
        return min((v for v, shapes in self.versions.items() if shapes[self.name].flexible), default=NEVER_FLEXIBLE)

    def rename(self, old: str, new: str) -> None:
        """Give a nested class another name in every version."""
        for version, shapes in self.versions.items():
            self.versions[version] = {
                new if name == old else name: Shape(
                    new if name == old else name, shape.flexible, tuple(_renamed(f, old, new) for f in shape.fields)
                )
                for name, shape in shapes.items()
            }


def _renamed(f: Field, old: str, new: str) -> Field:
    if f.struct != old:
        return f
    return Field(f.name, f.kind, new, f.array, f.nullable, f.tag, f.default)


def snake(name: str) -> str:
    spaced = re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", name)
    return re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", spaced).lower()
