"""Settings of topics, brokers and groups: single edits (KIP-339) and the old full replacement."""

from collections import Counter
from collections.abc import Mapping, Sequence

from ottla.base.broker_settings import BROKER_SETTINGS
from ottla.base.errors import ErrorCode, Refused
from ottla.base.group_settings import GROUP_SETTINGS
from ottla.base.settings import Kind, Setting
from ottla.base.topic_settings import TOPIC_SETTINGS, inherited_text
from ottla.core.metadata.asks import (
    ConfigAlteration,
    ConfigChange,
    ConfigEdit,
    ConfigOp,
    ConfigReplacement,
    Decision,
    ResourceType,
)
from ottla.core.metadata.config_rules import check_broker_config, check_group_config, check_topic_config
from ottla.core.metadata.records import ConfigRecord
from ottla.core.metadata.state import ControllerState
from ottla.core.metadata.topics import check_topic_name

Ask = ConfigChange | ConfigReplacement

_ROWS: Mapping[ResourceType, Mapping[str, Setting]] = {
    ResourceType.TOPIC: TOPIC_SETTINGS,
    ResourceType.BROKER: BROKER_SETTINGS,
    ResourceType.GROUP: GROUP_SETTINGS,
}


def incremental_alter_configs(
    state: ControllerState, asks: Sequence[ConfigChange], validate_only: bool = False
) -> Decision:
    return _decide(state, asks, validate_only)


def alter_configs(state: ControllerState, asks: Sequence[ConfigReplacement], validate_only: bool = False) -> Decision:
    return _decide(state, asks, validate_only)


def _decide(state: ControllerState, asks: Sequence[Ask], validate_only: bool) -> Decision:
    times = Counter((ask.type, ask.name) for ask in asks)
    records: list[object] = []
    replies: list[ConfigAlteration] = []
    for ask in asks:
        try:
            if times[ask.type, ask.name] > 1:
                raise Refused(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            records += _alter(state, ask)
        except Refused as refusal:
            replies.append(ConfigAlteration(ask.type, ask.name, refusal.code, refusal.why))
        else:
            replies.append(ConfigAlteration(ask.type, ask.name))
    return Decision(() if validate_only else tuple(records), replies)


def _alter(state: ControllerState, ask: Ask) -> list[object]:
    _check_resource(state, ask)
    before = dict(state.image.configs.get((ask.type, ask.name), {}))
    after = _replaced(ask) if isinstance(ask, ConfigReplacement) else _edited(state, ask, before)
    named = {edit.name for edit in ask.edits} if isinstance(ask, ConfigChange) else set()
    changed = {name for name in before.keys() | after.keys() | named if before.get(name) != after.get(name)}
    if ask.type == ResourceType.TOPIC:
        check_topic_config(after, state.defaults)
    elif ask.type == ResourceType.GROUP:
        check_group_config(after, state.defaults)
    else:
        check_broker_config(after, changed | named, is_default=not ask.name)
    return [
        ConfigRecord(resource_type=ask.type, resource_name=ask.name, name=name, value=after.get(name))
        for name in sorted(changed)
    ]


def _check_resource(state: ControllerState, ask: Ask) -> None:
    if ask.type == ResourceType.TOPIC:
        check_topic_name(ask.name)
        if ask.name not in state.image.topics_by_name:
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{ask.name[:249]}' does not exist.")
    elif ask.type == ResourceType.BROKER:
        if ask.name and not (ask.name.isascii() and ask.name.isdecimal() and len(ask.name) <= 10):
            raise Refused(ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {ask.name[:249]}")
        if ask.name and int(ask.name) not in state.image.brokers:
            raise Refused(ErrorCode.BROKER_ID_NOT_REGISTERED, f"No node with id {ask.name} found.")
    elif ask.type == ResourceType.GROUP:
        if not ask.name:
            raise Refused(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
    else:
        raise Refused(ErrorCode.INVALID_REQUEST, f"Unexpected resource type {ask.type}")


def _replaced(ask: ConfigReplacement) -> dict[str, str]:
    without = sorted(name for name, value in ask.configs if value is None)
    if without:
        raise Refused(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {','.join(without)}")
    if len({name for name, _ in ask.configs}) != len(ask.configs):
        raise Refused(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    return {name: value for name, value in ask.configs if value is not None}


def _edited(state: ControllerState, ask: ConfigChange, before: Mapping[str, str]) -> dict[str, str]:
    if len({edit.name for edit in ask.edits}) != len(ask.edits):
        raise Refused(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    after = dict(before)
    for edit in ask.edits:
        if edit.op != ConfigOp.DELETE and edit.value is None:
            raise Refused(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {edit.name}")
        if edit.op == ConfigOp.SET:
            after[edit.name] = edit.value or ""
        elif edit.op == ConfigOp.DELETE:
            after.pop(edit.name, None)
        elif edit.op in (ConfigOp.APPEND, ConfigOp.SUBTRACT):
            after[edit.name] = _list_edited(state, ask, edit, before.get(edit.name))
        else:
            raise Refused(ErrorCode.INVALID_REQUEST, f"Unknown operation {edit.op} on {edit.name}")
    return after


def _list_edited(state: ControllerState, ask: ConfigChange, edit: ConfigEdit, own: str | None) -> str:
    row = _ROWS[ResourceType(ask.type)].get(edit.name)
    if row is None or row.kind is not Kind.LIST:
        verb = ConfigOp(edit.op).name
        raise Refused(ErrorCode.INVALID_CONFIG, f"Can't {verb} to key {edit.name[:249]} because its type is not LIST.")
    text = own if own is not None else inherited_text(row, state.defaults)
    items = [item for item in (text or "").split(",") if item]
    asked = [item.strip() for item in (edit.value or "").split(",") if item.strip()]
    if edit.op == ConfigOp.APPEND:
        items += [item for item in dict.fromkeys(asked) if item not in items]
    else:
        items = [item for item in items if item not in asked]
    return ",".join(items)
