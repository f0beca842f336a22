"""TxnOffsetCommit: offsets of a group that count when the producer's transaction commits."""

from ottla.base.errors import ErrorCode, Refused
from ottla.broker.route import Call, Route, versions
from ottla.core.groups import asks
from ottla.runtime.admission import Admissions, Entrant, Place
from ottla.runtime.controller import Controller
from ottla.runtime.group_coordinator import GroupCoordinator
from ottla.runtime.shard import Stamp
from ottla.wire.batch import ProducerStamp
from ottla.wire.messages.index import ApiKey
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

_ADDS_PARTITION_VERSION = 5
_KNOWS_ABORTABLE_VERSION = 4
_NO_SEQUENCE = -1
_COORDINATION = (ErrorCode.NETWORK_EXCEPTION, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR)


class TxnOffsetsApi:
    def __init__(self, groups: GroupCoordinator, admissions: Admissions, controller: Controller) -> None:
        self._groups = groups
        self._admissions = admissions
        self._controller = controller

    def routes(self) -> tuple[Route, ...]:
        return (Route(ApiKey.TXN_OFFSET_COMMIT, versions(0, 5), self.commit),)

    async def commit(self, call: Call[TxnOffsetCommitRequest]) -> TxnOffsetCommitResponse:
        """TxnOffsetCommit. v3 says which member asks (KIP-447), v5 adds the partition by itself (KIP-890)."""
        ask = call.request
        response = TxnOffsetCommitResponse()
        wanted: list[asks.OffsetToCommit] = []
        results: list[TxnOffsetCommitResponsePartition] = []
        for topic in ask.topics:
            answer = TxnOffsetCommitResponseTopic(topic.name)
            response.topics.append(answer)
            image = self._controller.image.topics_by_name.get(topic.name)
            for one in topic.partitions:
                result = TxnOffsetCommitResponsePartition(one.partition_index)
                answer.partitions.append(result)
                if image is None or not 0 <= one.partition_index < len(image.partitions):
                    result.error_code = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                    continue
                wanted.append(
                    asks.OffsetToCommit(
                        topic.name,
                        one.partition_index,
                        one.committed_offset,
                        one.committed_leader_epoch,
                        one.committed_metadata,
                        image.id,
                    )
                )
                results.append(result)
        if wanted:
            try:
                errors = (await self._commit(call, wanted)).errors
            except Refused as refusal:
                errors = (refusal.code,) * len(wanted)
            for result, error in zip(results, errors, strict=True):
                result.error_code = int(error)
        return response

    async def _commit(
        self, call: Call[TxnOffsetCommitRequest], offsets: list[asks.OffsetToCommit]
    ) -> asks.OffsetCommitReply:
        ask = call.request
        if not ask.group_id:
            raise Refused(ErrorCode.INVALID_GROUP_ID, "offsets of a transaction without a group")
        if ask.producer_id < 0:
            raise Refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING, "offsets of a transaction without a producer")
        if ask.producer_epoch < 0:
            raise Refused(ErrorCode.INVALID_PRODUCER_EPOCH, f"epoch {ask.producer_epoch}")
        is_adding = call.version >= _ADDS_PARTITION_VERSION
        entrant = Entrant(ask.transactional_id, ask.producer_id, ask.producer_epoch, is_adding)
        (admission,) = await self._admissions.ask(entrant, [Place(self._groups.partition_of(ask.group_id))])
        if isinstance(admission, Refused):
            raise Refused(_to_producer(admission.code, call.version), admission.why)
        commit = asks.OffsetCommit(
            group_id=ask.group_id,
            offsets=tuple(offsets),
            member_id=ask.member_id,
            group_instance_id=ask.group_instance_id,
            generation_id_or_member_epoch=ask.generation_id,
            api_version=call.version,
            producer_id=ask.producer_id,
        )
        stamp = Stamp(ProducerStamp(ask.producer_id, ask.producer_epoch, _NO_SEQUENCE, True), admission)
        reply: asks.OffsetCommitReply = await self._groups.ask(
            ask.group_id, lambda core, now_ms: core.commit_offsets(commit, now_ms), stamp
        )
        return reply


def _to_producer(code: ErrorCode, version: int) -> ErrorCode:
    """What the transaction's coordinator says, in words that producers of this version know what to do with."""
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.TRANSACTION_ABORTABLE and version < _KNOWS_ABORTABLE_VERSION:
        return ErrorCode.INVALID_TXN_STATE
    if code in _COORDINATION or (code is ErrorCode.CONCURRENT_TRANSACTIONS and version < _ADDS_PARTITION_VERSION):
        # It is not the group's coordinator that is missing: they are to ask here again.
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return code
