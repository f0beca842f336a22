"""The settings of a topic, and `LogConfig`: the typed values of one topic that storage and replication read."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from ottla.base.setting_rows.inert import NOTE
from ottla.base.setting_rows.log import gzip_level
from ottla.base.settings import (
    BadSetting,
    Kind,
    Setting,
    Value,
    at_least,
    between,
    each_of,
    one_of,
    rows_by_name,
)

MAX_INT = 2**31 - 1
MAX_LONG = 2**63 - 1
_HOUR_MS = 3_600_000
_DAY_MS = 24 * _HOUR_MS


def _throttled(value: Value) -> str | None:
    """`*`, or a list of partition:broker."""
    if not isinstance(value, tuple) or value == ("*",):
        return None
    pairs = (item.partition(":") for item in value)
    if all(colon and left.isdecimal() and right.isdecimal() for left, colon, right in pairs):
        return None
    return "must be * or a list of partition:broker"


_ROWS = (
    Setting(
        "cleanup.policy", Kind.LIST, "delete",
        "delete: drop old segments by time and size; compact: keep the latest record of each key; both; "
        "empty: keep everything for ever.",
        each_of("compact", "delete"), ("log.cleanup.policy",),
    ),
    Setting(
        "compression.gzip.level", Kind.INT, "-1", "The level when the broker compresses with gzip.",
        gzip_level, ("compression.gzip.level",),
    ),
    Setting("compression.lz4.level", Kind.INT, "9", "The level when the broker compresses with lz4.",
            between(1, 17), ("compression.lz4.level",)),
    Setting(
        "compression.type", Kind.STRING, "producer",
        "The codec that batches are stored with; producer keeps what the producer chose.",
        one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"), ("compression.type",),
    ),
    Setting("compression.zstd.level", Kind.INT, "3", "The level when the broker compresses with zstd.",
            between(-131072, 22), ("compression.zstd.level",)),
    Setting(
        "delete.retention.ms", Kind.LONG, str(_DAY_MS),
        "How long a compacted topic keeps a tombstone, so that a reader from the start still sees it.",
        at_least(0), ("log.cleaner.delete.retention.ms",),
    ),
    Setting("file.delete.delay.ms", Kind.LONG, "60000", "How long a removed file stays on disk before it is deleted.",
            at_least(0), ("log.segment.delete.delay.ms",)),
    Setting(
        "flush.messages", Kind.LONG, str(MAX_LONG),
        "After how many records the log is forced to disk; with 1, an acknowledged record is on disk.",
        at_least(1), ("log.flush.interval.messages",),
    ),
    Setting("flush.ms", Kind.LONG, str(MAX_LONG), "After how long an appended record is forced to disk.",
            at_least(0), ("log.flush.interval.ms", "log.flush.scheduler.interval.ms")),
    Setting("follower.replication.throttled.replicas", Kind.LIST, "",
            f"Replicas (partition:broker, or *) whose replication is throttled on the follower's side. {NOTE}",
            _throttled),
    Setting("index.interval.bytes", Kind.INT, "4096", "How many bytes of log lie between two entries of the index.",
            at_least(0), ("log.index.interval.bytes",)),
    Setting("leader.replication.throttled.replicas", Kind.LIST, "",
            f"Replicas (partition:broker, or *) whose replication is throttled on the leader's side. {NOTE}",
            _throttled),
    Setting("local.retention.bytes", Kind.LONG, "-2",
            f"With remote storage: bytes kept locally; -2 follows retention.bytes. {NOTE}",
            at_least(-2), ("log.local.retention.bytes",)),
    Setting("local.retention.ms", Kind.LONG, "-2",
            f"With remote storage: time kept locally; -2 follows retention.ms. {NOTE}",
            at_least(-2), ("log.local.retention.ms",)),
    Setting("max.compaction.lag.ms", Kind.LONG, str(MAX_LONG),
            "A record older than this is compacted whatever the dirty ratio.",
            at_least(1), ("log.cleaner.max.compaction.lag.ms",)),
    Setting("max.message.bytes", Kind.INT, "1048588", "The largest record batch the topic takes.",
            at_least(0), ("message.max.bytes",)),
    Setting("message.timestamp.after.max.ms", Kind.LONG, str(_HOUR_MS),
            "How far a record's timestamp may lie ahead of the broker's clock.",
            at_least(0), ("log.message.timestamp.after.max.ms",)),
    Setting("message.timestamp.before.max.ms", Kind.LONG, str(MAX_LONG),
            "How far a record's timestamp may lie behind the broker's clock.",
            at_least(0), ("log.message.timestamp.before.max.ms",)),
    Setting("message.timestamp.type", Kind.STRING, "CreateTime",
            "CreateTime keeps the producer's timestamps, LogAppendTime writes the broker's.",
            one_of("CreateTime", "LogAppendTime"), ("log.message.timestamp.type",)),
    Setting("min.cleanable.dirty.ratio", Kind.DOUBLE, "0.5",
            "The part of the log that must be uncompacted before it is compacted.",
            between(0, 1), ("log.cleaner.min.cleanable.ratio",)),
    Setting("min.compaction.lag.ms", Kind.LONG, "0", "How long a record stays uncompacted at least.",
            at_least(0), ("log.cleaner.min.compaction.lag.ms",)),
    Setting("min.insync.replicas", Kind.INT, "1", "How many replicas must hold a record before acks=all is answered.",
            at_least(1), ("min.insync.replicas",)),
    Setting("preallocate", Kind.BOOLEAN, "false",
            f"Whether a new segment's file takes its full size at once. {NOTE}",
            None, ("log.preallocate",)),
    Setting("remote.log.copy.disable", Kind.BOOLEAN, "false", f"With remote storage: stop copying to it. {NOTE}"),
    Setting("remote.log.delete.on.disable", Kind.BOOLEAN, "false",
            f"With remote storage: delete there when it is switched off. {NOTE}"),
    Setting("remote.storage.enable", Kind.BOOLEAN, "false",
            "Whether old segments move to remote storage; not offered by this node.",
            lambda v: "must be false, this node has no remote storage" if v else None),
    Setting("retention.bytes", Kind.LONG, "-1",
            "The size past which a partition's oldest segments are deleted; -1 is no bound.",
            at_least(-1), ("log.retention.bytes",)),
    Setting("retention.ms", Kind.LONG, str(7 * _DAY_MS),
            "The age past which a segment is deleted; -1 keeps it for ever.",
            at_least(-1), ("log.retention.ms", "log.retention.minutes", "log.retention.hours")),
    Setting("segment.bytes", Kind.INT, str(1 << 30), "The size at which a new segment is started.",
            at_least(1024 * 1024), ("log.segment.bytes",)),
    Setting("segment.index.bytes", Kind.INT, str(10 * 1024 * 1024), "The largest size of a segment's offset index.",
            at_least(4), ("log.index.size.max.bytes",)),
    Setting("segment.jitter.ms", Kind.LONG, "0",
            "A random time taken off segment.ms, so that segments do not all roll at once.",
            at_least(0), ("log.roll.jitter.ms", "log.roll.jitter.hours")),
    Setting("segment.ms", Kind.LONG, str(7 * _DAY_MS), "The age at which a new segment is started.",
            at_least(1), ("log.roll.ms", "log.roll.hours")),
    Setting("unclean.leader.election.enable", Kind.BOOLEAN, "false",
            "Whether a replica that may lack acknowledged records may lead when no other is left.",
            None, ("unclean.leader.election.enable",)),
)  # fmt: skip

TOPIC_SETTINGS = rows_by_name(_ROWS)

_UNIT_MS = {"hours": _HOUR_MS, "minutes": 60_000}


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """The settings of one topic, typed; a field is the setting's name with underscores."""

    cleanup_policy: tuple[str, ...] = ("delete",)
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_type: str = "producer"
    compression_zstd_level: int = 3
    delete_retention_ms: int = _DAY_MS
    file_delete_delay_ms: int = 60_000
    flush_messages: int = MAX_LONG
    flush_ms: int = MAX_LONG
    index_interval_bytes: int = 4096
    max_compaction_lag_ms: int = MAX_LONG
    max_message_bytes: int = 1_048_588
    message_timestamp_after_max_ms: int = _HOUR_MS
    message_timestamp_before_max_ms: int = MAX_LONG
    message_timestamp_type: str = "CreateTime"
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    min_insync_replicas: int = 1
    retention_bytes: int = -1
    retention_ms: int = 7 * _DAY_MS
    segment_bytes: int = 1 << 30
    segment_index_bytes: int = 10 * 1024 * 1024
    segment_jitter_ms: int = 0
    segment_ms: int = 7 * _DAY_MS
    unclean_leader_election_enable: bool = False
    # Every append asks for these two.
    is_compacted: bool = field(init=False)
    is_log_append_time: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_compacted", "compact" in self.cleanup_policy)
        object.__setattr__(self, "is_log_append_time", self.message_timestamp_type == "LogAppendTime")


_LOG_CONFIG_FIELDS = frozenset(one.name for one in fields(LogConfig) if one.init)


def inherited_text(row: Setting, broker: Mapping[str, str]) -> str | None:
    """The default of a topic setting: the strongest of the broker's synonyms that is set, else the row's own."""
    for synonym in row.synonyms:
        text = broker.get(synonym)
        if text is None:
            continue
        unit_ms = _UNIT_MS.get(synonym.rpartition(".")[2])
        if unit_ms is None:
            return text
        return text if int(text) < 0 else str(int(text) * unit_ms)
    return row.default


def log_config(topic: Mapping[str, str], broker: Mapping[str, str]) -> LogConfig:
    """The effective settings of a topic: its own, over what the broker was given, over the defaults."""
    values: dict[str, Value] = {}
    for row in TOPIC_SETTINGS.values():
        if row.field in _LOG_CONFIG_FIELDS:
            values[row.field] = _effective(row, topic, broker)
    return LogConfig(**values)  # type: ignore[arg-type]


def _effective(row: Setting, topic: Mapping[str, str], broker: Mapping[str, str]) -> Value:
    """A value that another node, or Apache Kafka, took and that is none here, does not count."""
    if row.name in topic:
        try:
            return row.parse(topic[row.name])
        except BadSetting:
            pass
    return row.parse(inherited_text(row, broker))


def check_topic_settings(topic: Mapping[str, str]) -> None:
    """Raise BadSetting for an unknown name, a bad value, or values that contradict each other."""
    for name, text in topic.items():
        row = TOPIC_SETTINGS.get(name)
        if row is None:
            raise BadSetting(f"Unknown topic config name: {name[:249]}")
        row.parse(text)
    config = log_config(topic, {})
    if config.min_compaction_lag_ms > config.max_compaction_lag_ms:
        raise BadSetting(
            f"min.compaction.lag.ms ({config.min_compaction_lag_ms}) must not be above "
            f"max.compaction.lag.ms ({config.max_compaction_lag_ms})"
        )
