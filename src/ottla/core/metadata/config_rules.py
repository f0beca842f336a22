"""When a configuration as a whole is acceptable: the rules of topics, of brokers and of groups."""

from collections.abc import Mapping

from ottla.base.broker_settings import BROKER_SETTINGS
from ottla.base.errors import ErrorCode, Refused
from ottla.base.group_settings import check_group_settings
from ottla.base.settings import BadSetting, Reach
from ottla.base.topic_settings import check_topic_settings, log_config

VALUE_BYTES_MAX = 32_767


def check_topic_config(values: Mapping[str, str], defaults: Mapping[str, str]) -> None:
    """`defaults` are the broker settings that a topic inherits: two values may only contradict each other together."""
    _check_sizes(values)
    try:
        check_topic_settings(values)
        config = log_config(values, defaults)
    except BadSetting as bad:
        raise Refused(ErrorCode.INVALID_CONFIG, str(bad)) from None
    if config.min_compaction_lag_ms > config.max_compaction_lag_ms:
        raise Refused(ErrorCode.INVALID_CONFIG, "min.compaction.lag.ms must not be above max.compaction.lag.ms")


def check_broker_config(values: Mapping[str, str], changed: set[str], is_default: bool) -> None:
    """`changed` must be open to change while the node runs, and on this level."""
    _check_sizes(values)
    for name in sorted(changed):
        row = BROKER_SETTINGS.get(name)
        if row is None:
            raise Refused(ErrorCode.INVALID_CONFIG, f"Unknown broker config name: {name[:249]}")
        if row.reach is Reach.READ_ONLY:
            raise Refused(ErrorCode.INVALID_REQUEST, f"Cannot update these configs dynamically: {name}")
        if is_default and row.reach is Reach.PER_BROKER:
            raise Refused(
                ErrorCode.INVALID_REQUEST,
                f"Cannot update security configs dynamically at default cluster level: {name}",
            )
    try:
        for name, text in values.items():
            row = BROKER_SETTINGS.get(name)
            if row is not None:
                row.parse(text)
    except BadSetting as bad:
        # Another code than for a topic: Kafka has brokers check these settings themselves, with an older vocabulary.
        raise Refused(ErrorCode.INVALID_REQUEST, str(bad)) from None


def check_group_config(values: Mapping[str, str], defaults: Mapping[str, str]) -> None:
    """`defaults` are the broker settings, which also bound what a group may choose."""
    _check_sizes(values)
    try:
        check_group_settings(values, defaults)
    except BadSetting as bad:
        raise Refused(ErrorCode.INVALID_CONFIG, str(bad)) from None


def _check_sizes(values: Mapping[str, str]) -> None:
    for value in values.values():
        if len(value) > VALUE_BYTES_MAX // 4 and len(value.encode()) > VALUE_BYTES_MAX:
            raise Refused(
                ErrorCode.INVALID_CONFIG,
                "The configuration value cannot be added because it exceeds the maximum value size of "
                f"{VALUE_BYTES_MAX} bytes.",
            )
