"""Unions of more than one type are structs in Spark: from fastavro's values to these, and back.

A named type (record, enum, fixed) in a union comes from fastavro as the pair of its name and the value, and every
branch may be given that way; other branches are told apart by the type of the value.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from ottla.spark.formats.avro_schema import Schema, branches, kind_of, single_branch

Change: TypeAlias = Callable[[Any], Any]

_NAMED = ("record", "error", "enum", "fixed")
_PYTHON: dict[str, type | tuple[type, ...]] = {
    "boolean": bool,
    "int": int,
    "long": int,
    "float": float,
    "double": float,
    "string": str,
    "array": list,
    "map": dict,
}


def unwrapping(schema: Schema, named: Mapping[str, Schema]) -> Change | None:
    """From what fastavro reads to what Arrow takes; None when the schema has no union that would need it."""
    walk = _Walk(named, _read_union)
    return walk.change(schema) if walk.has_unions(schema) else None


def wrapping(schema: Schema, named: Mapping[str, Schema]) -> Change | None:
    """From Arrow's values to what fastavro writes."""
    walk = _Walk(named, _write_union)
    return walk.change(schema) if walk.has_unions(schema) else None


class _Walk:
    def __init__(self, named: Mapping[str, Schema], union: Callable[["_Walk", list[Schema]], Change]) -> None:
        self._named, self._union = named, union

    def resolved(self, schema: Schema) -> Schema:
        return self._named.get(schema, schema) if isinstance(schema, str) else schema

    def has_unions(self, schema: Schema) -> bool:
        schema = self.resolved(schema)
        match kind_of(schema):
            case "union":
                return single_branch(schema) is None or any(map(self.has_unions, branches(schema)))
            case "record" | "error":
                return any(self.has_unions(part["type"]) for part in schema["fields"])
            case "array":
                return self.has_unions(schema["items"])
            case "map":
                return self.has_unions(schema["values"])
        return False

    def change(self, schema: Schema) -> Change:
        schema = self.resolved(schema)
        match kind_of(schema):
            case "union":
                return self._union(self, schema)
            case "record" | "error":
                fields = [(part["name"], self.change(part["type"])) for part in schema["fields"]]
                return lambda row: {name: change(row[name]) for name, change in fields}
            case "array":
                change_one = self.change(schema["items"])
                return lambda values: [change_one(value) for value in values]
            case "map":
                change_one = self.change(schema["values"])
                return lambda pairs: {name: change_one(value) for name, value in pairs.items()}
        return _same


def _same(value: Any) -> Any:
    return value


def _read_union(walk: _Walk, union: list[Schema]) -> Change:
    some = [walk.resolved(branch) for branch in branches(union)]
    changes = [walk.change(branch) for branch in some]
    is_struct = single_branch(union) is None
    by_name = {branch["name"]: index for index, branch in enumerate(some) if kind_of(branch) in _NAMED}

    def change(value: Any) -> Any:
        if value is None:
            return None
        if type(value) is tuple:
            index, value = by_name[value[0]], value[1]
        else:
            index = next(index for index, branch in enumerate(some) if _may_be(branch, value)) if is_struct else 0
        changed = changes[index](value)
        return {f"member{index}": changed} if is_struct else changed

    return change


def _may_be(branch: Schema, value: Any) -> bool:
    kind = kind_of(branch)
    if kind == "bytes":
        return not isinstance(value, bool | int | float | str | list | dict)  # bytes, or a decimal
    return kind not in _NAMED and type(value) is _PYTHON[kind]


def _write_union(walk: _Walk, union: list[Schema]) -> Change:
    some = [walk.resolved(branch) for branch in branches(union)]
    changes = [walk.change(branch) for branch in some]
    if single_branch(union) is not None:
        return lambda value: None if value is None else changes[0](value)
    names = [branch["name"] if kind_of(branch) in _NAMED else kind_of(branch) for branch in some]

    def change(value: Any) -> Any:
        if value is None:
            return None
        given = [index for index in range(len(some)) if value[f"member{index}"] is not None]
        if len(given) > 1:
            raise ValueError(f"a union has one member, not {' and '.join(f'member{index}' for index in given)}")
        return (names[given[0]], changes[given[0]](value[f"member{given[0]}"])) if given else None

    return change
