"""Rows become records: the columns of a query as a topic's key, value and headers."""

from pathlib import Path
from typing import TYPE_CHECKING

from ottla.spark.pipelines import record_formats
from ottla.spark.pipelines.definitions import Fault, Faulty, Flow, Options
from ottla.spark.pipelines.project import advice

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

CONNECTOR_COLUMNS = {
    "key": ("binary", "string"),
    "value": ("binary", "string"),
    "headers": ("array<struct<key:string,value:binary>>",),
    "topic": ("string",),
    "partition": ("int",),
}
FORMATS = ("raw", "string", *record_formats.NAMES)
OPTIONS = frozenset({"format", "key"}) | record_formats.OPTIONS


def encoded(rows: "DataFrame", flow: Flow, options: Options, directory: Path) -> "DataFrame":
    """The connector's columns `topic, key, value, headers`, and `partition` where the query says it."""
    kind = options.get("format") or _usual_format(rows)
    faults = list(_faults(rows, kind, options))
    if faults:
        raise Faulty(*(Fault(flow.place, f"{flow.name}: {why}") for why in faults))
    from pyspark.sql import functions as F

    def given(name: str, type_: str) -> "Column":
        return (F.col(name) if name in rows.columns else F.lit(None)).cast(type_).alias(name)

    headers = CONNECTOR_COLUMNS["headers"][0]
    topic = F.lit(options["topic"]) if "topic" in options else F.col("topic")
    if kind in ("avro", "protobuf"):
        return _by_schema(rows, flow, {**options, "format": kind}, directory)
    if kind == "json":
        value = F.to_json(F.struct(*(F.col(f"`{name}`") for name in rows.columns))).cast("binary")
        empty = F.lit(None).cast(headers).alias("headers")
        return rows.select(topic.alias("topic"), _key(rows, options), value.alias("value"), empty)
    columns = [topic.alias("topic"), _key(rows, options), given("value", "binary"), given("headers", headers)]
    if "partition" in rows.columns:
        columns.append(F.col("partition"))
    return rows.select(*columns)


def _by_schema(rows: "DataFrame", flow: Flow, options: Options, directory: Path) -> "DataFrame":
    """Each column of the schema from the query's column of that name."""
    from pyspark.sql import functions as F

    try:
        format_ = record_formats.open_format(options["format"], options, None, directory)
    except record_formats.BadFormat as bad:
        raise Faulty(Fault(flow.place, f"{flow.name}: {bad}")) from None
    schema = record_formats.spark_type(format_)
    missing = [field.name for field in schema if field.name not in rows.columns]
    if missing:
        why = f"the schema has {missing[0]}, and the query does not{advice(missing[0], set(rows.columns))}"
        raise Faulty(Fault(flow.place, f"{flow.name}: {why}"))
    row = F.struct(*(F.col(f"`{field.name}`").cast(field.dataType).alias(field.name) for field in schema))
    topic = F.lit(options["topic"]) if "topic" in options else F.col("topic")
    named = rows.select(topic.alias("topic"), _key(rows, options), row.alias(record_formats.ROW))
    headers = F.lit(None).cast(CONNECTOR_COLUMNS["headers"][0]).alias("headers")
    return record_formats.encoded(named, format_).select("topic", "key", "value", headers)


def _usual_format(rows: "DataFrame") -> str:
    """Rows that look like a topic's go out as they are; all others are JSON."""
    return "raw" if "value" in rows.columns and set(rows.columns) <= CONNECTOR_COLUMNS.keys() else "json"


def _key(rows: "DataFrame", options: Options) -> "Column":
    from pyspark.sql import functions as F

    name = options.get("key") or (
        "key" if "key" in rows.columns and options.get("format") not in record_formats.NAMES else None
    )
    if name is None:
        return F.lit(None).cast("binary").alias("key")
    key = F.col(f"`{name}`")
    is_bytes = dict(rows.dtypes)[name] == "binary"
    return (key if is_bytes else key.cast("string").cast("binary")).alias("key")


def _faults(rows: "DataFrame", kind: str, options: Options) -> "list[str]":
    faults = []
    key = options.get("key")
    if key is not None and key not in rows.columns:
        faults.append(f"the query has no column {key} to be the key{advice(key, set(rows.columns))}")
    if kind not in FORMATS:
        return [*faults, f"format is one of {', '.join(FORMATS)}, not {kind}{advice(kind, set(FORMATS))}"]
    if kind in record_formats.NAMES:
        return faults
    if "value" not in rows.columns:
        faults.append(f"{kind} records need a column `value`; the query has {', '.join(rows.columns)}")
    for name, type_ in rows.dtypes:
        possible = CONNECTOR_COLUMNS.get(name)
        if possible is None and name != key:
            faults.append(f"{kind} records have no column {name}; leave it out, or name a format such as json")
        elif possible is not None and type_ not in possible:
            faults.append(f"column {name} has to be {' or '.join(possible)}, not {type_}")
    if "topic" not in options and "topic" not in rows.columns:
        faults.append("neither the sink nor the query says which topic")
    return faults
