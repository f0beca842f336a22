"""Records become columns: what could be read, and what could not, with the reason."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.base import dead_letters
from ottla.spark.pipelines import record_formats
from ottla.spark.pipelines.definitions import Fault, Faulty, Source
from ottla.spark.pipelines.project import advice
from ottla.spark.pipelines.record_formats import ERROR, VALUE
from ottla.spark.pipelines.topics import kind_of, wants_headers

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

METADATA = ("topic", "partition", "offset", "timestamp", "headers")
ERRORS = ("dlq", "drop", "fail")
HEADERS = "array<struct<key: string, value: binary>>"
_KEY = "_key"


@dataclass(frozen=True, slots=True)
class Decoded:
    good: "DataFrame"
    bad: "DataFrame | None"
    """The connector's rows of records that could not be read, and why (`error`); None where nothing can be wrong."""


def decode(rows: "DataFrame", source: Source, directory: Path) -> Decoded:
    """Raises `Faulty` where the options of the stream make no sense. Files of schemas are in the directory."""
    _check(source)
    kind = kind_of(source)
    if kind in _AS_IT_IS:
        return Decoded(_timed(_plain(rows, source, kind), source), None)
    from pyspark.sql import functions as F

    schema = None if source.columns is None else _schema(source)
    try:
        asked = None if schema is None else _value_columns(schema, source)
        format_ = record_formats.open_format(kind, source.options, asked, directory)
    except record_formats.BadFormat as why:
        raise Faulty(Fault(source.place, f"{source.name}: {why}")) from None
    schema = schema or record_formats.spark_type(format_)
    found = record_formats.decoded(rows, format_)
    found = _with_key(_required(found, _value_columns(schema, source)), source, schema)
    is_good = F.col(ERROR).isNull()
    errors = source.options.get("errors", "dlq")
    if errors == "fail":
        complaint = F.concat(
            F.format_string("%s, partition %s, offset %s: ", "topic", "partition", F.col("offset")), F.col(ERROR)
        )
        found = found.withColumn(VALUE, F.when(is_good, F.col(VALUE)).otherwise(F.raise_error(complaint)))
        is_good = F.lit(True)
    good = found.where(is_good).select(*_columns(source, schema))
    bad = found.where(~is_good).select(*rows.columns, F.col(ERROR).alias("error")) if errors == "dlq" else None
    return Decoded(_timed(good, source), bad)


def latest(rows: "DataFrame") -> "DataFrame":
    """The last record of each key; a key whose last record has no value is gone."""
    from pyspark.sql import functions as F

    last = F.max_by(F.struct(*(column for column in rows.columns if column != "key")), "offset")
    return (
        rows.where(F.col("key").isNotNull())
        .groupBy("key")
        .agg(last.alias("last"))
        .where(F.col("last.value").isNotNull())
        .select("key", "last.*")
    )


def dead_letter_topic(source: Source) -> str:
    return source.options.get("dlq", source.topic + dead_letters.SUFFIX)


def dead_rows(bad: "DataFrame", source: Source, pipeline: str) -> "DataFrame":
    """Rows for the dead-letter topic: key, value and headers as they were, and the story in further headers."""
    from pyspark.sql import functions as F

    told = {
        dead_letters.ERROR: F.col("error"),
        dead_letters.TOPIC: F.col("topic"),
        dead_letters.PARTITION: F.col("partition").cast("string"),
        dead_letters.OFFSET: F.col("offset").cast("string"),
        dead_letters.TIMESTAMP: F.unix_millis("timestamp").cast("string"),
        dead_letters.PIPELINE: F.lit(pipeline),
    }
    story = F.array(*(header(name, text) for name, text in told.items()))
    # A record that fails again has one story, that of its last failure.
    own = F.filter(
        F.coalesce("headers", F.array().cast(HEADERS)), lambda one: ~one["key"].startswith(dead_letters.PREFIX)
    )
    return bad.select(
        F.lit(dead_letter_topic(source)).alias("topic"), "key", "value", F.concat(own, story).alias("headers")
    )


def header(name: str, text: "Column") -> "Column":
    from pyspark.sql import functions as F

    return F.struct(F.lit(name).alias("key"), text.cast("binary").alias("value"))


def _required(rows: "DataFrame", schema: "StructType") -> "DataFrame":
    """A column that must not be null, and is, makes a record as bad as one that cannot be read."""
    from pyspark.sql import functions as F

    has_value = F.col("value").isNotNull() & F.col(ERROR).isNull()
    error = F.col(ERROR)
    for field in reversed(schema):
        if not field.nullable:
            is_missing = has_value & F.col(VALUE).getField(field.name).isNull()
            error = F.when(is_missing, F.lit(f"{field.name} is missing")).otherwise(error)
    return rows.withColumn(ERROR, error)


_AS_IT_IS = ("raw", "string")
FORMATS = (*_AS_IT_IS, *record_formats.NAMES)


def _check(source: Source) -> None:
    options, faults = source.options, []
    kind = options.get("format", "json" if source.columns else "raw")
    for name, known, given in (
        ("format", FORMATS, [kind]),
        ("errors", ERRORS, [options.get("errors", "dlq")]),
        ("key.format", ("string", "raw"), [options.get("key.format", "string")]),
        ("metadata", METADATA, options.get("metadata", "").replace(",", " ").split()),
    ):
        faults += [
            f"{name} is one of {', '.join(known)}, not {word}{advice(word, set(known))}"
            for word in given
            if word not in known
        ]
    if kind == "json" and source.columns is None:
        faults.append(f"{kind} needs the columns: CREATE STREAM {source.name} (id bigint, …) FROM TOPIC {source.topic}")
    if kind in _AS_IT_IS and source.columns is not None:
        faults.append(f"{kind} values have no columns of their own; leave the columns out, or name another format")
    if "watermark" in options and "timestamp" not in options:
        faults.append("a watermark needs to know the column of the time: timestamp = …")
    if "watermark" in options and source.is_table:
        faults.append("a table has no watermark; it is what is there, and nothing comes late")
    if faults:
        raise Faulty(*(Fault(source.place, f"{source.name}: {why}") for why in faults))


def _schema(source: Source) -> "StructType":
    from pyspark.errors import PySparkException
    from pyspark.sql.types import StructType

    assert source.columns is not None
    try:
        found = StructType.fromDDL(source.columns.text)
    except PySparkException as failure:
        from ottla.spark.pipelines.positions import fault_in

        raise Faulty(fault_in(source.columns, failure)) from None
    assert isinstance(found, StructType)
    return found


def _value_columns(schema: "StructType", source: Source) -> "StructType":
    """Those that come from the value: all but the key's."""
    from pyspark.sql.types import StructType

    return StructType([field for field in schema if field.name != source.options.get("key")])


def _with_key(rows: "DataFrame", source: Source, schema: "StructType") -> "DataFrame":
    from pyspark.sql import functions as F

    name = source.options.get("key")
    if name is None:
        return rows
    wanted = next((field.dataType for field in schema if field.name == name), None)
    key = F.col("key") if source.options.get("key.format") == "raw" else F.col("key").cast("string")
    if wanted is None:
        return rows.withColumn(_KEY, key)
    converted = key.try_cast(wanted)
    is_bad = F.col("key").isNotNull() & converted.isNull()
    complaint = F.lit(f"the key is no {wanted.simpleString()}")
    return rows.withColumn(_KEY, converted).withColumn(ERROR, F.when(is_bad, complaint).otherwise(F.col(ERROR)))


def _columns(source: Source, schema: "StructType") -> "list[Column]":
    """The declared columns in their order, then the key and the time if they are not among them, then metadata."""
    from pyspark.sql import functions as F

    key, names = source.options.get("key"), [field.name for field in schema]
    columns = [(F.col(_KEY) if name == key else F.col(VALUE).getField(name)).alias(name) for name in names]
    if key is not None and key not in names:
        columns.append(F.col(_KEY).alias(key))
    return [*columns, *_metadata(source, [*names, key or ""])]


def _plain(rows: "DataFrame", source: Source, kind: str) -> "DataFrame":
    """The connector's columns; text instead of bytes if that is the format."""
    from pyspark.sql import functions as F

    if not wants_headers(source) and source.options.get("includeheaders") != "true":
        rows = rows.drop("headers")
    if kind == "string":
        rows = rows.withColumns({name: F.col(name).cast("string") for name in ("key", "value")})
    if (key := source.options.get("key")) is not None:
        rows = rows.withColumnRenamed("key", key)
    return rows.select(*rows.columns, *_metadata(source, rows.columns))


def _metadata(source: Source, taken: list[str]) -> "list[Column]":
    from pyspark.sql import functions as F

    asked = source.options.get("metadata", "").replace(",", " ").split()
    columns = [F.col(name) for name in asked if name not in taken]
    time = source.options.get("timestamp")
    if time is not None and time not in (*taken, *asked):
        columns.append(F.col("timestamp").alias(time))
    return columns


def _timed(rows: "DataFrame", source: Source) -> "DataFrame":
    delay = source.options.get("watermark")
    if delay is None or source.is_table:
        return rows
    return rows.withWatermark(source.options["timestamp"], delay)
