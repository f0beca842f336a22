"""All groups of a shard, by id: the fold over the records of `__consumer_offsets`."""

from typing import assert_never

from ottla.base.errors import ErrorCode, Refused
from ottla.core.groups.classic_group import ClassicGroup
from ottla.core.groups.consumer_group import ConsumerGroup
from ottla.core.groups.offsets import Offsets
from ottla.core.groups.records import (
    ConsumerRecord,
    CurrentRecord,
    EpochRecord,
    GroupRecord,
    MemberRecord,
    OffsetRecord,
    PatternRecord,
    Record,
    TargetEpochRecord,
    TargetRecord,
)

GROUP_ID_BYTES_MAX = 32_767


class Groups:
    __slots__ = ("by_id", "offsets")

    def __init__(self) -> None:
        self.by_id: dict[str, ClassicGroup | ConsumerGroup] = {}
        self.offsets = Offsets()

    # Looking up

    def classic(self, group_id: str) -> ClassicGroup | None:
        group = self.by_id.get(group_id)
        return group if isinstance(group, ClassicGroup) else None

    def consumer(self, group_id: str) -> ConsumerGroup | None:
        group = self.by_id.get(group_id)
        return group if isinstance(group, ConsumerGroup) else None

    def exists(self, group_id: str) -> bool:
        return group_id in self.by_id or self.offsets.has_any(group_id)

    # The log

    def apply(self, record: Record, written_ms: int) -> None:
        match record:
            case OffsetRecord():
                self.offsets.apply(record)
            case GroupRecord():
                self._apply_generation(record, written_ms)
            case (
                EpochRecord()
                | MemberRecord()
                | TargetEpochRecord()
                | TargetRecord()
                | CurrentRecord()
                | PatternRecord()
            ):
                self._apply_to_consumers(record, written_ms)
            case _:
                assert_never(record)

    def _apply_generation(self, record: GroupRecord, written_ms: int) -> None:
        group = self.by_id.get(record.group_id)
        if record.value is None:
            if isinstance(group, ClassicGroup):
                del self.by_id[record.group_id]
        elif isinstance(group, ClassicGroup) and not group.is_replayed:
            group.install(record.value, written_ms)
        else:
            self.by_id[record.group_id] = ClassicGroup.loaded(record.group_id, record.value)

    def _apply_to_consumers(self, record: ConsumerRecord, written_ms: int) -> None:
        group = self.by_id.get(record.group_id)
        if not isinstance(group, ConsumerGroup):
            if record.value is None:
                return
            group = self.by_id[record.group_id] = ConsumerGroup(record.group_id)
        if isinstance(record, EpochRecord) and record.value is None:
            del self.by_id[record.group_id]
            return
        group.apply(record, written_ms)


def check_group_id(group_id: str, code: ErrorCode = ErrorCode.INVALID_GROUP_ID) -> None:
    if not group_id:
        raise Refused(code, "The group id must not be empty.")
    check_size(group_id, code)


def check_size(group_id: str, code: ErrorCode = ErrorCode.INVALID_GROUP_ID) -> None:
    if len(group_id.encode()) > GROUP_ID_BYTES_MAX:
        raise Refused(code, "The group id is too long.")
