"""Avro's records from Arrow without a Python object for each."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ottla.spark.formats import put_kernels as kernels
from ottla.spark.formats.avro_schema import ParsedSchema, Schema, branches, kind_of, single_branch
from ottla.spark.formats.decimals import narrow
from ottla.spark.formats.writing import (
    Elements,
    Part,
    Put,
    Scope,
    blobs,
    in_order,
    longs_of,
    numbers,
    sorted_pairs,
    valid,
)

_NUMBERS = {
    "int": kernels.ZIGZAG,
    "long": kernels.ZIGZAG,
    "float": kernels.FOUR,
    "double": kernels.EIGHT,
    "boolean": kernels.BYTE,
}


def writer(parsed: ParsedSchema) -> Part | None:
    """Of columns of the schema's bare type. None for schemas with a union of numbers of two sizes."""
    walk = _Walk(parsed.named)
    return walk.part(parsed.schema, parsed.bare) if walk.can_write(parsed.schema) else None


class _Walk:
    def __init__(self, named: Mapping[str, Schema]) -> None:
        self._named = named

    def _resolved(self, schema: Schema) -> Schema:
        return self._named.get(schema, schema) if isinstance(schema, str) else schema

    def can_write(self, schema: Schema) -> bool:
        schema = self._resolved(schema)
        match kind_of(schema):
            case "union":
                is_wide = len(branches(schema)) > 1
                kinds = [kind_of(self._resolved(branch)) for branch in schema]
                is_known = kinds.count("null") < 2 and not (is_wide and single_branch(schema) is not None)
                return is_known and all(map(self.can_write, schema))
            case "record" | "error":
                return all(self.can_write(part["type"]) for part in schema["fields"])
            case "array":
                return self.can_write(schema["items"])
            case "map":
                return self.can_write(schema["values"])
        return True

    def part(self, schema: Schema, kind: pa.DataType) -> Part:
        schema = self._resolved(schema)
        name = kind_of(schema)
        match name:
            case "union":
                return self._union(schema, kind)
            case "record" | "error":
                parts = [self.part(one["type"], of.type) for one, of in zip(schema["fields"], kind, strict=True)]
                return lambda column, scope: _record(parts, column, scope)
            case "array":
                element = self.part(schema["items"], kind.value_type)
                return lambda column, scope: _list(element, column, scope)
            case "map":
                item = self.part(schema["values"], kind.item_type)
                return lambda column, scope: _map(item, column, scope)
            case "enum":
                symbols = pa.array(schema["symbols"], pa.string())
                return lambda column, scope: _enum(symbols, column, scope)
            case "string" | "bytes" | "fixed":
                return _blob(schema["size"] if name == "fixed" else -1, kind)
        how = _NUMBERS[name]
        return lambda column, scope: numbers(longs_of(column), scope.demanded(column), how)

    def _union(self, union: list[Schema], kind: pa.DataType) -> Part:
        kinds = [kind_of(self._resolved(branch)) for branch in union]
        null = kinds.index("null") if "null" in kinds else -1
        some = [(index, branch) for index, branch in enumerate(union) if index != null]
        if single_branch(union) is None:
            members = [
                (index, self.part(branch, kind.field(member).type)) for member, (index, branch) in enumerate(some)
            ]
            return lambda column, scope: _members(members, null, column, scope)
        (only,) = some
        part = self.part(only[1], kind)
        return lambda column, scope: _choice([(only[0], part, column)], null, scope)


def _choice(members: list[tuple[int, Part, pa.Array]], null: int, scope: Scope) -> Put:
    """Which branch, and what it is; where all are null it is the branch of null."""
    is_given = [valid(column) & scope.is_live for _, _, column in members]
    count = np.add.reduce(is_given, dtype=np.int64)
    scope.refuse((count > 1) | (count == 0 if null < 0 else False))
    branch = np.full(len(scope.is_live), null, np.int64)
    for (index, _, _), given in zip(members, is_given, strict=True):
        branch[given != 0] = index
    puts = [numbers(branch, scope, kernels.ZIGZAG)]
    puts += [part(column, scope.some(given)) for (_, part, column), given in zip(members, is_given, strict=True)]
    return in_order(puts)


def _members(members: list[tuple[int, Part]], null: int, column: pa.StructArray, scope: Scope) -> Put:
    columns = column.flatten()  # a member of what is null is null
    return _choice([(index, part, of) for (index, part), of in zip(members, columns, strict=True)], null, scope)


def _record(parts: list[Part], column: pa.StructArray, scope: Scope) -> Put:
    inside = scope.demanded(column)
    return in_order([part(column.field(index), inside) for index, part in enumerate(parts)])


def _list(element: Part, column: pa.Array, scope: Scope) -> Put:
    inside = scope.demanded(column)
    elements = Elements.of(column, inside)
    put = element(elements.cut(column.values), elements.scope)
    return elements.around(put, inside, kernels.BLOCK)


def _map(item: Part, column: pa.MapArray, scope: Scope) -> Put:
    inside = scope.demanded(column)
    elements = Elements.of(column, inside)
    keys = elements.cut(column.keys)
    sorted_pairs(elements, keys, inside)  # for keys that come twice; they go out as they are
    puts = [blobs(keys, elements.scope.demanded(keys), kernels.ZIGZAG)]
    puts.append(item(elements.cut(column.items), elements.scope))
    return elements.around(in_order(puts), inside, kernels.BLOCK)


def _enum(symbols: pa.Array, column: pa.Array, scope: Scope) -> Put:
    found = pc.index_in(column, value_set=symbols)
    return numbers(longs_of(found), scope.demanded(found), kernels.ZIGZAG)


def _blob(size: int, kind: pa.DataType) -> Part:
    how = kernels.ZIGZAG if size < 0 else kernels.NOTHING

    def part(column: pa.Array, scope: Scope) -> Put:
        inside = scope.demanded(column)
        if pa.types.is_decimal128(kind):
            column, is_bad = narrow(column, size)
            inside.refuse(is_bad)
        elif size >= 0:
            inside.refuse(pc.not_equal(pc.binary_length(column), size).fill_null(False).to_numpy(zero_copy_only=False))
        return blobs(column, inside, how)

    return part
