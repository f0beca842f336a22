"""The settings of a node, and `BrokerConfig`: their typed values, read once at start."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from types import MappingProxyType

from ottla.base.broker_setting_rows import BROKER_ROWS
from ottla.base.settings import BadSetting, Setting, rows_by_name, typed
from ottla.base.topic_settings import LogConfig, log_config
from ottla.base.types import BrokerId, Uuid, uuid_from_text

BROKER_SETTINGS: dict[str, Setting] = rows_by_name(BROKER_ROWS)
DEFAULT_PORT = 9092
_SECURE_PROTOCOLS = frozenset({"SSL", "SASL_PLAINTEXT", "SASL_SSL"})
_FIRST_NODE = BrokerId(1)
_EVERYWHERE = frozenset({"0.0.0.0", "::"})


@dataclass(frozen=True, slots=True)
class Listener:
    """One address to listen on; port 0 lets the system choose."""

    name: str
    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> "Listener":
        """`PLAINTEXT://host:port`, or `host:port`."""
        scheme, separator, rest = text.strip().rpartition("://")
        host, colon, port = rest.rpartition(":")
        if not colon or not port.isdecimal() or int(port) > 65535 or (separator and not scheme):
            raise BadSetting(f"a listener is written HOST:PORT or NAME://HOST:PORT, not {text[:100]!r}")
        return cls((scheme or "PLAINTEXT").upper(), host.strip("[]"), int(port))

    @property
    def address(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig:
    """What a node is started with. `texts` is what the user set, by Kafka's names; the other fields are typed."""

    texts: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    node_id: BrokerId = _FIRST_NODE
    cluster_id: Uuid | None = None
    """Only for the first start of a directory; afterwards meta.properties is the truth."""
    listeners: tuple[Listener, ...] = (Listener("PLAINTEXT", "127.0.0.1", DEFAULT_PORT),)
    advertised_listeners: tuple[Listener, ...] = ()
    log_dirs: tuple[Path, ...] = ()
    metadata_log_dir: Path | None = None

    add_partitions_to_txn_retry_backoff_max_ms: int = 100
    auto_create_topics_enable: bool = True
    broker_rack: str | None = None
    connections_max_idle_ms: int = 600_000
    default_replication_factor: int = 1
    delete_topic_enable: bool = True
    fetch_max_bytes: int = 57_671_680
    group_consumer_assignors: tuple[str, ...] = ("uniform", "range")
    group_consumer_heartbeat_interval_ms: int = 5_000
    group_consumer_max_size: int = 2_147_483_647
    group_consumer_migration_policy: str = "bidirectional"
    group_consumer_session_timeout_ms: int = 45_000
    group_initial_rebalance_delay_ms: int = 3_000
    group_max_session_timeout_ms: int = 1_800_000
    group_max_size: int = 2_147_483_647
    group_min_session_timeout_ms: int = 6_000
    log_cleaner_backoff_ms: int = 15_000
    log_cleaner_dedupe_buffer_size: int = 134_217_728
    log_cleaner_enable: bool = True
    log_cleaner_threads: int = 1
    log_flush_offset_checkpoint_interval_ms: int = 60_000
    log_flush_start_offset_checkpoint_interval_ms: int = 60_000
    log_initial_task_delay_ms: int = 30_000
    log_retention_check_interval_ms: int = 300_000
    max_connections: int = 2_147_483_647
    max_connections_per_ip: int = 2_147_483_647
    max_request_partition_size_limit: int = 2_000
    metadata_log_max_record_bytes_between_snapshots: int = 20_971_520
    metadata_log_max_snapshot_interval_ms: int = 3_600_000
    metrics_listener: str | None = None
    num_partitions: int = 1
    offset_metadata_max_bytes: int = 4096
    offsets_commit_timeout_ms: int = 5_000
    offsets_retention_check_interval_ms: int = 600_000
    offsets_retention_minutes: int = 10_080
    offsets_topic_num_partitions: int = 50
    offsets_topic_replication_factor: int = 3
    offsets_topic_segment_bytes: int = 104_857_600
    producer_id_expiration_ms: int = 86_400_000
    replica_high_watermark_checkpoint_interval_ms: int = 5_000
    request_timeout_ms: int = 30_000
    socket_request_max_bytes: int = 104_857_600
    transaction_max_timeout_ms: int = 900_000
    transaction_partition_verification_enable: bool = True
    transaction_remove_expired_transaction_cleanup_interval_ms: int = 3_600_000
    transaction_state_log_min_isr: int = 2
    transaction_state_log_num_partitions: int = 50
    transaction_state_log_replication_factor: int = 3
    transaction_state_log_segment_bytes: int = 104_857_600
    transaction_two_phase_commit_enable: bool = False
    transactional_id_expiration_ms: int = 604_800_000

    @classmethod
    def from_texts(cls, texts: Mapping[str, str], **overrides: object) -> "BrokerConfig":
        """Check every setting and build the typed tree; `overrides` are fields that come from elsewhere (flags)."""
        check_broker_settings(texts)
        values = typed(BROKER_SETTINGS, texts)
        known = {f.name for f in fields(cls)}
        chosen: dict[str, object] = {name: value for name, value in values.items() if name in known}
        chosen["node_id"] = values["node_id"]
        if texts.get("cluster.id"):
            chosen["cluster_id"] = _cluster_id(texts["cluster.id"])
        else:
            chosen.pop("cluster_id", None)
        listeners = _listeners(texts.get("listeners") or f"127.0.0.1:{DEFAULT_PORT}")
        _check_protocols(listeners, texts.get("listener.security.protocol.map", ""))
        chosen["listeners"] = listeners
        advertised = _listeners(texts.get("advertised.listeners"))
        _check_advertised(advertised, listeners)
        chosen["advertised_listeners"] = advertised
        if texts.get("metrics.listener"):
            Listener.parse(texts["metrics.listener"])
        directories = texts.get("log.dirs") or texts.get("log.dir")
        chosen["log_dirs"] = tuple(Path(d.strip()) for d in directories.split(",") if d.strip()) if directories else ()
        metadata_dir = texts.get("metadata.log.dir")
        chosen["metadata_log_dir"] = Path(metadata_dir) if metadata_dir else None
        chosen.update(overrides)
        return cls(texts=MappingProxyType(dict(texts)), **chosen)  # type: ignore[arg-type]

    def with_texts(self, texts: Mapping[str, str]) -> "BrokerConfig":
        """The same node after a dynamic change: addresses and directories stay what they were."""
        # Another node, or Apache Kafka, may have set what is unknown here; its place in the metadata log is its own.
        changed = BrokerConfig.from_texts({name: text for name, text in texts.items() if is_valid(name, text)})
        return replace(
            changed,
            node_id=self.node_id,
            cluster_id=self.cluster_id,
            listeners=self.listeners,
            advertised_listeners=self.advertised_listeners,
            log_dirs=self.log_dirs,
            metadata_log_dir=self.metadata_log_dir,
        )

    def log_defaults(self) -> LogConfig:
        """What a topic without settings of its own gets."""
        return log_config({}, self.texts)


def is_valid(name: str, text: str) -> bool:
    """Whether it is a setting with a value that it takes."""
    row = BROKER_SETTINGS.get(name)
    try:
        return row is not None and (row.parse(text), True)[1]
    except BadSetting:
        return False


_BELOW = (
    ("group.min.session.timeout.ms", "group.max.session.timeout.ms", False),
    ("group.consumer.heartbeat.interval.ms", "group.consumer.session.timeout.ms", True),
)
"""A smaller setting, a larger one, and whether equal is wrong as well."""


def check_broker_settings(texts: Mapping[str, str]) -> None:
    """Raise BadSetting for an unknown name, a bad value, or values that contradict each other."""
    for name, text in texts.items():
        row = BROKER_SETTINGS.get(name)
        if row is None:
            raise BadSetting(unknown_setting(name))
        row.parse(text)
    for low_name, high_name, is_strict in _BELOW:
        low, high = (int(texts.get(name) or BROKER_SETTINGS[name].default or 0) for name in (low_name, high_name))
        if low > high or (is_strict and low == high):
            how = "be below" if is_strict else "not exceed"
            raise BadSetting(f"{low_name} ({low}) must {how} {high_name} ({high})")


def unknown_setting(name: str) -> str:
    """In Kafka's words, and what may have been meant."""
    from difflib import get_close_matches

    alike = get_close_matches(name, BROKER_SETTINGS, 1, 0.8)
    alike = alike or get_close_matches(f"log.{name}", BROKER_SETTINGS, 1, 0.9)
    return f"Unknown broker config name: {name[:249]}" + (f" (is {alike[0]} meant?)" if alike else "")


def _check_protocols(listeners: Iterable[Listener], protocols: str) -> None:
    """A listener that is to be encrypted must not be opened as one that is not."""
    said = dict(pair.strip().rsplit(":", 1) for pair in protocols.split(",") if ":" in pair)
    for listener in listeners:
        protocol = said.get(listener.name, listener.name).strip().upper()
        if protocol in _SECURE_PROTOCOLS:
            raise BadSetting(f"listener {listener.name} wants {protocol}; only PLAINTEXT is served so far")


def _check_advertised(advertised: Iterable[Listener], listeners: Iterable[Listener]) -> None:
    """Clients are sent there, so it must be a place, and one that is listened on."""
    names = {listener.name for listener in listeners}
    for told in advertised:
        if told.name not in names:
            raise BadSetting(f"advertised.listeners names {told.name}, and no listener has that name")
        if told.host in _EVERYWHERE:
            raise BadSetting(f"advertised.listeners needs an address that clients can reach, not {told.address}")


def _listeners(text: str | None) -> tuple[Listener, ...]:
    return tuple(Listener.parse(part) for part in text.split(",")) if text else ()


def _cluster_id(text: str) -> Uuid:
    try:
        return uuid_from_text(text)
    except ValueError as error:
        raise BadSetting(f"cluster.id: {error}") from None
