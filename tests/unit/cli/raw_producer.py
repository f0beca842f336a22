"""A transactional producer that does what client libraries do not: two-phase commit, and breaking the protocol."""

import time

from ottla.cli.brokers import Brokers
from ottla.cli.connection import Target
from ottla.cli.places import Place
from ottla.wire.batch import ProducerStamp, encode_batch, new_records
from ottla.wire.messages.end_txn import EndTxnRequest
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

_LAST_CLASSIC_PRODUCE, _LAST_CLASSIC_OFFSET_COMMIT = 11, 4
_GROUP = 0


class RawProducer:
    def __init__(self, bootstrap: str, transactional_id: str) -> None:
        self._brokers = Brokers(Target(bootstrap, timeout_s=20))
        self._id = transactional_id
        self.producer_id, self.epoch = -1, -1
        self._sequences: dict[Place, int] = {}

    def __enter__(self) -> "RawProducer":
        self._brokers.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._brokers.__exit__(None, None, None)

    def init(self, two_phase: bool = False, timeout_ms: int = 60_000) -> "RawProducer":
        request = InitProducerIdRequest(self._id, timeout_ms, enable2_pc=two_phase)

        def ask() -> tuple[int, object]:
            answer = self._brokers.coordinator(self._id).ask(request)
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
            return answer.error_code, answer

        self._brokers.patiently(ask, self._id)
        return self

    def write(self, place: Place, *values: bytes, is_classic: bool = False) -> int:
        """The error code. A classic producer leaves it to itself to tell the coordinator, and this one does not."""
        records = new_records([(None, value) for value in values], int(time.time() * 1000))
        sequence = self._sequences.get(place, 0)
        batch = encode_batch(records, producer=ProducerStamp(self.producer_id, self.epoch, sequence, True))
        topic, index = place
        topic_id = next(one.topic_id for one in self._brokers.metadata().topics if one.name == topic)
        request = ProduceRequest(
            self._id, -1, 10_000, [TopicProduceData(topic, topic_id, [PartitionProduceData(index, batch)])]
        )
        leader = self._brokers.leader(place)
        if is_classic:
            leader.versions.ranges[ProduceRequest.API_KEY] = (3, _LAST_CLASSIC_PRODUCE)
        code = int(leader.ask(request).responses[0].partition_responses[0].error_code)
        if code == 0:
            self._sequences[place] = sequence + len(values)
        return code

    def send_offset(self, group: str, place: Place, offset: int) -> int:
        """The error code. To the group's coordinator alone, as only a broken classic producer does it."""
        topic, index = place
        topics = [TxnOffsetCommitRequestTopic(topic, [TxnOffsetCommitRequestPartition(index, offset)])]
        request = TxnOffsetCommitRequest(self._id, group, self.producer_id, self.epoch, topics=topics)
        found = self._brokers.any().ask(FindCoordinatorRequest(group, _GROUP, [group])).coordinators[0]
        exchange = self._brokers.at((found.host, found.port))
        exchange.versions.ranges[TxnOffsetCommitRequest.API_KEY] = (0, _LAST_CLASSIC_OFFSET_COMMIT)
        return int(exchange.ask(request).topics[0].partitions[0].error_code)

    def end(self, committed: bool) -> int:
        """The error code."""
        request = EndTxnRequest(self._id, self.producer_id, self.epoch, committed)
        return int(self._brokers.coordinator(self._id).ask(request).error_code)
