"""The options and columns of a write: those of Spark's Kafka connector, and what makes it exactly once."""

from collections.abc import Iterable
from dataclasses import dataclass

from pyspark.sql.types import ArrayType, BinaryType, DataType, IntegerType, StringType, StructType, TimestampType

from ottla.spark.option_words import BadOption, OptionWords
from ottla.wire.compression import Codec

TIMEOUT_MS = 15 * 60_000
"""Of the transactions that tasks leave to the driver: the longest a batch may take, and the longest brokers allow."""
_CODECS = {"none": Codec.NONE, "gzip": Codec.GZIP, "snappy": Codec.SNAPPY, "lz4": Codec.LZ4, "zstd": Codec.ZSTD}
_PROTOCOLS = ("auto", "group", "manifest")
_KNOWN = (
    "topic",
    "includeHeaders",
    "includeTimestamp",
    "sinkName",
    "txnAppId",
    "txnVersion",
    "txnCheckpoint",
    "commitProtocol",
    "manifestTopic",
)


@dataclass(frozen=True, kw_only=True)
class TxnOptions:
    """A batch as its writer names it: written once, however often it is tried."""

    app_id: str
    version: int
    checkpoint: str | None


@dataclass(frozen=True, kw_only=True)
class SinkOptions:
    kafka: dict[str, str]
    topic: str | None
    """None: a column says it, row by row."""
    columns: tuple[str, ...]
    """Those of the rows that are written."""
    codec: Codec
    timeout_ms: int
    sink: str
    """Told apart by it: two writes of one query."""
    txn: TxnOptions | None
    protocol: str
    manifest_topic: str


def parse_sink_options(given: OptionWords, schema: StructType) -> SinkOptions:
    given.refuse_misspelt(_KNOWN)
    kafka, topic = given.kafka(), given.text("topic")
    if topic == "":
        raise BadOption("option 'topic' is empty")
    return SinkOptions(
        kafka=kafka,
        topic=topic,
        columns=_columns(schema, topic, given.flag("includeTimestamp", False)),
        codec=_codec(kafka),
        timeout_ms=_timeout_ms(kafka),
        sink=given.text("sinkName") or (f"topic {topic}" if topic else "topics by row"),
        txn=_txn(given),
        protocol=given.one_of("commitProtocol", _PROTOCOLS, "auto"),
        manifest_topic=given.text("manifestTopic") or "ottla-spark-commits",
    )


def _txn(given: OptionWords) -> TxnOptions | None:
    app_id, version = given.text("txnAppId"), given.number("txnVersion")
    if app_id is None and version is None:
        return None
    if not app_id or version is None or version < 0:
        raise BadOption("options 'txnAppId' and 'txnVersion' belong together: a name, and a number that only grows")
    return TxnOptions(app_id=app_id, version=version, checkpoint=given.text("txnCheckpoint"))


def _codec(kafka: dict[str, str]) -> Codec:
    name = kafka.get("compression.type", "none").lower()
    if name not in _CODECS:
        raise BadOption(f"option 'kafka.compression.type' is one of {', '.join(_CODECS)}, not '{name}'")
    return _CODECS[name]


def _timeout_ms(kafka: dict[str, str]) -> int:
    text = kafka.get("transaction.timeout.ms", str(TIMEOUT_MS))
    if not text.isdecimal() or not int(text):
        raise BadOption(f"option 'kafka.transaction.timeout.ms' is a number of milliseconds, not '{text}'")
    return int(text)


def _columns(schema: StructType, topic: str | None, has_timestamp: bool) -> tuple[str, ...]:
    fields = {field.name.lower(): field.dataType for field in schema.fields}
    if "value" not in fields:
        raise BadOption(f"rows need a column 'value'; there are {', '.join(schema.fieldNames()) or 'none'}")
    if topic is None and "topic" not in fields:
        raise BadOption("where to write is said by the option 'topic' or by a column 'topic'; there is neither")
    wanted = ["key", "value", "headers", "partition", *(["timestamp"] if has_timestamp else [])]
    for name, types in _TYPES.items():
        if name in fields and (name in wanted or (name == "topic" and topic is None)):
            _check_type(name, fields[name], types)
    if topic is None:
        wanted.append("topic")
    return tuple(field.name for field in schema.fields if field.name.lower() in wanted)


def _check_type(name: str, found: DataType, types: Iterable[type[DataType]]) -> None:
    is_fit = isinstance(found, tuple(types))
    if name == "headers":
        element = found.elementType if isinstance(found, ArrayType) else None
        fields = element.fields if isinstance(element, StructType) else []
        is_fit = [(field.name, type(field.dataType)) for field in fields] == _HEADER
    if not is_fit:
        expected = "array<struct<key:string,value:binary>>" if name == "headers" else " or ".join(_names(types))
        raise BadOption(f"column '{name}' is {expected}, not {found.simpleString()}")


def _names(types: Iterable[type[DataType]]) -> list[str]:
    return [kind.typeName() for kind in types]


_HEADER = [("key", StringType), ("value", BinaryType)]
_TYPES: dict[str, tuple[type[DataType], ...]] = {
    "key": (StringType, BinaryType),
    "value": (StringType, BinaryType),
    "topic": (StringType,),
    "partition": (IntegerType,),
    "timestamp": (TimestampType,),
    "headers": (ArrayType,),
}
