"""The rows of a topic: the columns of Spark's own Kafka connector, name for name and type for type."""

from collections.abc import Iterable

import pyarrow as pa

HEADERS_TYPE = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
TIMESTAMP_TYPE = pa.timestamp("us", "UTC")

ROW = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", TIMESTAMP_TYPE),
        ("timestampType", pa.int32()),
        ("headers", HEADERS_TYPE),
    ]
)
COLUMNS: tuple[str, ...] = tuple(ROW.names)
COLUMNS_BY_DEFAULT = COLUMNS[:-1]
"""Headers are opt-in, as in the connector: nested columns cost more than all others together."""

CREATE_TIME, LOG_APPEND_TIME = 0, 1


def row_schema(columns: Iterable[str] = COLUMNS_BY_DEFAULT) -> pa.Schema:
    """The schema of these columns, in the connector's order whatever the order they are given in."""
    wanted = set(columns)
    unknown = wanted.difference(COLUMNS)
    if unknown:
        raise ValueError(f"a topic has no column {sorted(unknown)[0]}; there are {', '.join(COLUMNS)}")
    return pa.schema([field for field in ROW if field.name in wanted])
