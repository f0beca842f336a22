"""The settings that a group may have of its own (KIP-848, KIP-932, KIP-1071), over those that a node has for all."""

from collections.abc import Mapping

from ottla.base.broker_settings import BROKER_SETTINGS
from ottla.base.setting_rows.inert import NOTE, inert
from ottla.base.settings import BadSetting, Kind, Setting, at_least, one_of, rows_by_name

_SESSION, _HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"


def _of_node(name: str, doc: str, note: str = f" {NOTE}") -> Setting:
    """A setting whose default is the node's setting of the same name."""
    default = f"group.{name}"
    row = BROKER_SETTINGS[default]
    return Setting(name, row.kind, row.default, f"{doc}{note}", at_least(0), (default,))


GROUP_SETTINGS: dict[str, Setting] = rows_by_name((
    _of_node("consumer.assignment.interval.ms", "How long an assignment is kept at least before the next.", ""),
    _of_node(_HEARTBEAT, "How often the members of this consumer group send heartbeats.", ""),
    _of_node(_SESSION, "After how long without a heartbeat a member of this consumer group is removed.", ""),
    _of_node("share.assignment.interval.ms", "How long a share group's assignment is kept at least."),
    Setting("share.auto.offset.reset", Kind.STRING, "latest", f"Where a new share group begins. {NOTE}"),
    _of_node("share.delivery.count.limit", "How often a record is delivered before it is given up."),
    _of_node("share.heartbeat.interval.ms", "How often the members of this share group send heartbeats."),
    Setting("share.isolation.level", Kind.STRING, "read_uncommitted",
            f"Which records of transactions a share group gets. {NOTE}", one_of("read_committed", "read_uncommitted")),
    _of_node("share.partition.max.record.locks", "How many records of a partition may be held locked."),
    _of_node("share.record.lock.duration.ms", "How long a delivered record stays locked for its reader."),
    inert("share.renew.acknowledge.enable", Kind.BOOLEAN, "true", "Whether a reader may ask for more time."),
    _of_node("share.session.timeout.ms", "After how long without a heartbeat a member is removed."),
    _of_node("streams.assignment.interval.ms", "How long a streams group's assignment is kept at least."),
    _of_node("streams.heartbeat.interval.ms", "How often the members of this streams group send heartbeats."),
    _of_node("streams.initial.rebalance.delay.ms", "How long the first rebalance waits for more members."),
    _of_node("streams.num.standby.replicas", "How many standby tasks a streams group keeps."),
    _of_node("streams.session.timeout.ms", "After how long without a heartbeat a member is removed."),
))  # fmt: skip


def check_group_settings(group: Mapping[str, str], broker: Mapping[str, str]) -> None:
    """Raise BadSetting for an unknown name, a value outside the node's bounds, or values that contradict each other."""
    for name, text in group.items():
        row = GROUP_SETTINGS.get(name)
        if row is None:
            raise BadSetting(f"Unknown group config name: {name[:249]}")
        value = row.parse(text)
        kind, _, rest = name.partition(".")
        low_name, high_name = f"group.{kind}.min.{rest}", f"group.{kind}.max.{rest}"
        if isinstance(value, int):
            low, high = _number(low_name, broker), _number(high_name, broker)
            if low is not None and value < low:
                raise BadSetting(f"{name} must be greater than or equal to {low_name}")
            if high is not None and value > high:
                raise BadSetting(f"{name} must be less than or equal to {high_name}")
    times = consumer_times(group, broker)
    if times[_HEARTBEAT] >= times[_SESSION]:
        raise BadSetting(f"{_HEARTBEAT} must be less than {_SESSION}")


def _number(name: str, broker: Mapping[str, str]) -> int | None:
    """What the node says; None if there is no such setting."""
    row = BROKER_SETTINGS.get(name)
    value = None if row is None else row.parse(broker.get(name, row.default))
    return value if isinstance(value, int) else None


def consumer_times(group: Mapping[str, str], broker: Mapping[str, str]) -> dict[str, int]:
    """The effective milliseconds of a consumer group's settings, by their names."""
    return {
        name: int(group[name]) if name in group else _number(f"group.{name}", broker) or 0
        for name in GROUP_SETTINGS
        if name.startswith("consumer.")
    }
