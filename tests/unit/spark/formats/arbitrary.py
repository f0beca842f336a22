"""Values of any type, nulls among them, be they of a schema or not: quicker to make than by Hypothesis."""

from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa

_TEXTS = ("NEW", "OLD", "ONE", "TWO", "RED", "7", "", "é", '"\\\n')
_FLOATS = (0.0, -0.0, 1.5, float("inf"), -2.0, 1e22)
_BYTES = (b"", b"\xff", b"abc", b"four")


def rows_of(kind: pa.DataType, seed: int) -> pa.Array:
    """Up to three of them, with an offset now and then."""
    source = Random(seed)
    rows = [value_of(kind, source) for _ in range(source.randrange(4))]
    return pa.array(rows, kind).slice(min(source.randrange(2), len(rows)))


def value_of(kind: pa.DataType, source: Random) -> Any:
    types = pa.types
    if source.random() < 0.1:
        return None
    if types.is_struct(kind):
        return {field.name: value_of(field.type, source) for field in kind}
    if types.is_map(kind):
        keys = [value_of(kind.key_type, source) for _ in range(source.randrange(3))]
        return list({key: value_of(kind.item_type, source) for key in keys if key is not None}.items())
    if types.is_list(kind):
        return [value_of(kind.value_type, source) for _ in range(source.randrange(3))]
    if types.is_decimal(kind):
        limit = 10**kind.precision
        number = source.choice((0, 1, -1, 2**64, source.randrange(-limit, limit)))
        return Decimal(f"{number % limit if number > 0 else number}E-{kind.scale}")
    if types.is_boolean(kind):
        return source.random() < 0.5
    if types.is_floating(kind):
        return source.choice(_FLOATS)
    if types.is_string(kind) or types.is_binary(kind):
        return source.choice(_TEXTS if types.is_string(kind) else _BYTES)
    if types.is_date32(kind):
        return source.randrange(-700_000, 2_900_000)
    limit = 2 ** (kind.bit_width - 1)
    return source.choice((0, 1, -1, limit - 1, -limit, limit // 3, source.randrange(-limit, limit)))
