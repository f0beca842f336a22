"""Merges the versions of a message: one class per name, one layout per distinct sequence of bytes."""

from __future__ import annotations

from dataclasses import dataclass

from tools.gen.model import FIXED_SIZES, Field, Message, Shape, snake


@dataclass(slots=True)
class ClassField:
    """A field of the merged class."""

    name: str
    kind: str
    struct: str
    array: bool
    nullable: bool
    tagged: bool
    default: str | None

    @property
    def shared_default(self) -> bool:
        """Nested messages that may be absent share one unchangeable default: one per response would cost too much."""
        if self.kind != "struct" or self.array or not self.tagged:
            return False
        return not self.nullable or self.default == "{}"


@dataclass(slots=True)
class MessageClass:
    name: str
    fields: list[ClassField]

    def field(self, name: str) -> ClassField:
        return next(f for f in self.fields if f.name == name)


@dataclass(slots=True)
class Layout:
    """The bytes of one class in the versions that agree on them. `nested` maps field names to layouts."""

    of: MessageClass
    since: int
    shape: Shape
    nested: dict[str, Layout]

    @property
    def suffix(self) -> str:
        return f"{snake(self.of.name)}_v{self.since}"

    @property
    def size_min(self) -> int:
        """The fewest bytes that this layout can take: bounds the number of array elements."""
        return sum(self._field_size_min(f) for f in self.shape.regular) + self.shape.flexible

    def _field_size_min(self, f: Field) -> int:
        if f.fixed_format:
            return FIXED_SIZES[f.fixed_format]
        if f.kind == "struct" and not f.array:
            return 1 if f.nullable else self.nested[f.name].size_min
        if self.shape.flexible:
            return 1
        return 2 if f.kind == "string" and not f.array else 4

    def element_size_min(self, f: Field) -> int:
        if f.kind == "struct":
            return max(1, self.nested[f.name].size_min)
        if f.kind in ("string", "bytes", "records"):
            return 1 if self.shape.flexible else 2
        element = Field(f.name, f.kind).fixed_format
        assert element is not None, f
        return FIXED_SIZES[element]


@dataclass(slots=True)
class MergedMessage:
    message: Message
    classes: list[MessageClass]
    layouts: list[Layout]
    top: dict[int, Layout]


def merge(message: Message) -> MergedMessage:
    classes = {name: MessageClass(name, _merge_fields(message, name)) for name in _class_names(message)}
    seen: dict[tuple[object, ...], Layout] = {}
    top: dict[int, Layout] = {}
    for version in sorted(message.versions):
        by_name: dict[str, Layout] = {}
        for name, shape in message.versions[version].items():
            nested = {f.name: by_name[f.struct] for f in shape.fields if f.struct}
            key = (name, shape, tuple((field, id(layout)) for field, layout in nested.items()))
            by_name[name] = seen.setdefault(key, Layout(classes[name], version, shape, nested))
        top[version] = by_name[message.name]
    return MergedMessage(message, list(classes.values()), list(seen.values()), top)


def _class_names(message: Message) -> list[str]:
    """Nested first, the message last; of the newest version, then what only older ones have."""
    names: dict[str, None] = {}
    for version in sorted(message.versions, reverse=True):
        for name in message.versions[version]:
            names.setdefault(name)
    del names[message.name]
    # An older version's class may contain a newer one's: order by containment.
    ordered: list[str] = []

    def place(name: str) -> None:
        if name in ordered:
            return
        for shapes in message.versions.values():
            if name in shapes:
                for f in shapes[name].fields:
                    if f.struct:
                        place(f.struct)
        ordered.append(name)

    for name in names:
        place(name)
    return [*ordered, message.name]


def _merge_fields(message: Message, name: str) -> list[ClassField]:
    merged: dict[str, ClassField] = {}
    order: list[str] = []
    for version in sorted(message.versions, reverse=True):
        shape = message.versions[version].get(name)
        if shape is None:
            continue
        position = 0
        for f in shape.fields:
            if f.name in merged:
                _widen(merged[f.name], f)
                position = order.index(f.name) + 1
            else:
                merged[f.name] = ClassField(f.name, f.kind, f.struct, f.array, f.nullable, f.tag is not None, f.default)
                order.insert(position, f.name)
                position += 1
    return [merged[field] for field in order]


def _widen(merged: ClassField, f: Field) -> None:
    if (merged.kind, merged.struct, merged.array) != (f.kind, f.struct, f.array):
        raise ValueError(f"{f.name} changes its type between versions: {merged} and {f}")
    merged.nullable = merged.nullable or f.nullable
    if merged.default is None:
        merged.default = f.default
