"""The options of a read, all of them, as one value. Names and rules are those of Spark's Kafka connector."""

import re
from dataclasses import dataclass
from typing import TypeAlias

from ottla.base.types import TopicPartition
from ottla.client.offsets import Isolation
from ottla.spark.arrow.schema import COLUMNS, COLUMNS_BY_DEFAULT
from ottla.spark.lake.archives import FORMATS, ArchiveOptions
from ottla.spark.option_words import BadOption, OptionWords
from ottla.spark.source.positions import (
    EARLIEST,
    LATEST,
    Edge,
    Offsets,
    Position,
    Since,
    parse_assignment,
    parse_offsets,
    parse_timestamps,
)

_WHICH = ("assign", "subscribe", "subscribePattern")
_STARTINGS = ("startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets")
_ENDINGS = ("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets")
_TRIGGERS = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "maxBytesPerTrigger")
_SPLITS = ("minPartitions", "maxRecordsPerPartition", "rowsPerTask")
_MAX_TRIGGER_DELAY_MS = 15 * 60_000
_POLL_WAIT_MS = 500
_EPOCH_MS = 5000
ROWS_PER_TASK = 250_000

# Followed by the connector's machinery, which is not ours: a group for authorization, caches, retries, poll times.
_NEEDLESS = (
    "groupIdPrefix",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "partition.metadata.cache.ttl.ms",
)
_KNOWN = (
    *_WHICH,
    *_ENDINGS,
    *_TRIGGERS,
    *_NEEDLESS,
    *_STARTINGS,
    "startingOffsetsByTimestampStrategy",
    "failOnDataLoss",
    "minPartitions",
    "maxRecordsPerPartition",
    "includeHeaders",
    "columns",
    "group",
    "pollWait",
    "rowsPerTask",
    "mode",
    "epoch",
    "archive",
)
_ARCHIVE = "archive."


@dataclass(frozen=True)
class Named:
    topics: tuple[str, ...]


@dataclass(frozen=True)
class Matching:
    pattern: str


@dataclass(frozen=True)
class Assigned:
    partitions: tuple[TopicPartition, ...]


Subscription: TypeAlias = Named | Matching | Assigned


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How much one micro-batch takes."""

    offsets_max: int | None = None
    offsets_min: int | None = None
    delay_ms_max: int = _MAX_TRIGGER_DELAY_MS
    bytes_max: int | None = None


@dataclass(frozen=True, kw_only=True)
class Splitting:
    """How ranges of offsets become tasks."""

    partitions_min: int | None = None
    records_max: int | None = None
    rows_per_task: int = ROWS_PER_TASK


@dataclass(frozen=True, kw_only=True)
class SourceOptions:
    kafka: dict[str, str]
    subscription: Subscription
    columns: tuple[str, ...]
    start: Position
    end: Position
    is_late_start_refused: bool
    """Whether a starting time after the last record is an error, or means the end."""
    fail_on_data_loss: bool
    limits: Limits
    splitting: Splitting
    isolation: Isolation
    group: str | None
    poll_wait_ms: int
    is_tail: bool
    epoch_ms: int
    """In tail mode: how long one task follows the log, at most."""
    archive: ArchiveOptions | None = None
    """The table that is read before the log, where there is one."""


def parse_source_options(given: OptionWords, is_stream: bool) -> SourceOptions:
    given.refuse_misspelt(_KNOWN, (_ARCHIVE,))
    kafka = given.kafka()
    start, end = _start(given, is_stream), _end(given, is_stream)
    group = given.text("group")
    if group == "":
        raise BadOption("option 'group' is the name of a consumer group, not empty")
    if group is not None and not is_stream:
        raise BadOption("option 'group' is for streaming queries: a batch query has no progress to show")
    return SourceOptions(
        kafka=kafka,
        subscription=_subscription(given),
        columns=parse_columns(given),
        start=start,
        end=end,
        is_late_start_refused=given.one_of("startingOffsetsByTimestampStrategy", ("error", "latest"), "error")
        == "error",
        fail_on_data_loss=given.flag("failOnDataLoss", True),
        limits=_limits(given) if is_stream else Limits(),
        splitting=Splitting(
            partitions_min=given.count("minPartitions"),
            records_max=given.count("maxRecordsPerPartition"),
            rows_per_task=given.count("rowsPerTask") or ROWS_PER_TASK,
        ),
        isolation=_isolation(kafka),
        group=group,
        poll_wait_ms=given.duration_ms("pollWait", _POLL_WAIT_MS),
        is_tail=_is_tail(given, is_stream),
        epoch_ms=given.duration_ms("epoch", _EPOCH_MS),
        archive=_archive(given),
    )


def _is_tail(given: OptionWords, is_stream: bool) -> bool:
    if given.one_of("mode", ("micro", "tail"), "micro") != "tail":
        return False
    if not is_stream:
        raise BadOption("mode 'tail' is for streaming queries: a batch query has an end")
    for name in (*_TRIGGERS, *_SPLITS):
        if name in given:
            raise BadOption(f"option '{name}' means nothing in mode 'tail', where one task follows the log")
    return True


def _archive(given: OptionWords) -> ArchiveOptions | None:
    more = given.below(_ARCHIVE)
    name = given.text("archive")
    if name is None:
        if more:
            raise BadOption(f"option '{_ARCHIVE}{min(more)}' says nothing without the option 'archive', the table")
        return None
    if not name:
        raise BadOption("option 'archive' is the path of a table (of Iceberg its name), not empty")
    for option in (*_STARTINGS, *_ENDINGS):
        if option in given and given.text(option) != ("earliest" if option in _STARTINGS else "latest"):
            raise BadOption(f"option '{option}' cannot be set with an archive, which is read from its beginning; "
                            "conditions on offset and timestamp say what is wanted of it")  # fmt: skip
    if given.text("mode") == "tail":
        raise BadOption("mode 'tail' follows a topic from where it is; an archive is for the other modes")
    kind = given.one_of("archive.format", FORMATS, "delta")
    return ArchiveOptions(kind, name, {key: value for key, value in more.items() if key != "format"})


def parse_columns(given: OptionWords) -> tuple[str, ...]:
    """Column pruning by hand: Spark does none for sources in Python. Asked for before all else, for the schema."""
    has_headers = given.flag("includeHeaders", False)
    text = given.text("columns")
    if text is None:
        return COLUMNS if has_headers else COLUMNS_BY_DEFAULT
    wanted = {name.strip() for name in text.split(",") if name.strip()}
    if has_headers:
        wanted.add("headers")
    by_lower = {name.lower(): name for name in COLUMNS}
    unknown = sorted(name for name in wanted if name.lower() not in by_lower)
    if unknown or not wanted:
        named = f"'{unknown[0]}'" if unknown else "none"
        raise BadOption(f"option 'columns' names some of {', '.join(COLUMNS)}; not {named}")
    chosen = {by_lower[name.lower()] for name in wanted}
    return tuple(name for name in COLUMNS if name in chosen)


def _subscription(given: OptionWords) -> Subscription:
    chosen = [name for name in _WHICH if name in given]
    if len(chosen) != 1:
        said = "none is" if not chosen else f"{' and '.join(chosen)} are"
        raise BadOption(f"exactly one of the options {', '.join(_WHICH)} says what to read; {said} given")
    [name] = chosen
    text = given.text(name) or ""
    if name == "assign":
        return Assigned(tuple(sorted(set(parse_assignment(text)))))
    if name == "subscribe":
        topics = tuple(dict.fromkeys(topic.strip() for topic in text.split(",") if topic.strip()))
        if not topics:
            raise BadOption("option 'subscribe' names no topic")
        return Named(topics)
    if not text:
        raise BadOption("option 'subscribePattern' is empty")
    try:
        re.compile(text)
    except re.error as fault:
        raise BadOption(f"option 'subscribePattern' is no regular expression: {fault}") from None
    return Matching(text)


def _start(given: OptionWords, is_stream: bool) -> Position:
    start = _position(given, "starting", Edge(LATEST if is_stream else EARLIEST))
    if is_stream:
        return start
    if start == Edge(LATEST):
        raise BadOption("a batch query cannot start at the latest offset: there is nothing behind it")
    for place, offset in start.by_partition.items() if isinstance(start, Offsets) else ():
        if offset == LATEST:
            raise BadOption(f"option 'startingOffsets': a batch query cannot start at the latest offset of {place}")
    return start


def _end(given: OptionWords, is_stream: bool) -> Position:
    if is_stream:
        for name in _ENDINGS:
            if name in given:
                raise BadOption(f"option '{name}' is for batch queries: a streaming query has no end")
        return Edge(LATEST)
    end = _position(given, "ending", Edge(LATEST))
    if end == Edge(EARLIEST):
        raise BadOption("a batch query cannot end at the earliest offset: there is nothing before it")
    for place, offset in end.by_partition.items() if isinstance(end, Offsets) else ():
        if offset == EARLIEST:
            raise BadOption(f"option 'endingOffsets': a batch query cannot end at the earliest offset of {place}")
    return end


def _position(given: OptionWords, which: str, default: Position) -> Position:
    """A time for all wins over times by partition, and both over offsets."""
    timestamp_ms = given.number(f"{which}Timestamp")
    if timestamp_ms is not None:
        if timestamp_ms < 0:
            raise BadOption(f"option '{which}Timestamp' is a time in milliseconds since 1970, not {timestamp_ms}")
        return Since(timestamp_ms)
    name = f"{which}OffsetsByTimestamp"
    if (text := given.text(name)) is not None:
        return parse_timestamps(name, text)
    name = f"{which}Offsets"
    text = given.text(name)
    return default if text is None else parse_offsets(name, text)


def _limits(given: OptionWords) -> Limits:
    limits = Limits(
        offsets_max=given.count("maxOffsetsPerTrigger"),
        offsets_min=given.count("minOffsetsPerTrigger"),
        delay_ms_max=given.duration_ms("maxTriggerDelay", _MAX_TRIGGER_DELAY_MS),
        bytes_max=given.count("maxBytesPerTrigger"),
    )
    if limits.offsets_min and limits.offsets_max and limits.offsets_min > limits.offsets_max:
        raise BadOption(
            f"option 'minOffsetsPerTrigger' ({limits.offsets_min}) cannot be above "
            f"'maxOffsetsPerTrigger' ({limits.offsets_max})"
        )
    return limits


def _isolation(kafka: dict[str, str]) -> Isolation:
    text = kafka.get("isolation.level", "read_committed").lower()
    if text not in ("read_committed", "read_uncommitted"):
        raise BadOption(f"option 'kafka.isolation.level' is read_committed or read_uncommitted, not '{text}'")
    return Isolation.READ_COMMITTED if text == "read_committed" else Isolation.READ_UNCOMMITTED
