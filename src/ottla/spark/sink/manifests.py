"""Deciding about batches on a cluster without group commits, as every Apache Kafka is one.

The decision is a record in a compacted topic, the *manifest*: the members of the batch, by name. When it is committed
the driver ends the members one by one; a driver that dies meanwhile is followed by one that reads the manifest and ends
the others. What the cluster cannot promise is that it keeps their transactions open for so long: one that reaches its
timeout before is aborted, and its rows are lost. That is noticed, and told (`RowsLost`); KIP-939 will end it.

Drivers fence each other by the producer of manifests, so that of two on one checkpoint only the later one decides.
"""

import json
import time
import zlib
from collections.abc import Iterable
from dataclasses import dataclass

from ottla.base.errors import ErrorCode
from ottla.base.types import TopicName, TopicPartition
from ottla.client.cluster import Cluster
from ottla.client.failures import BrokerRefused, ClientFailure, check
from ottla.client.fetch import Appetite, fetch
from ottla.client.fetch import Fetched as Answer
from ottla.client.group_commit import LastCommit, MembersLost
from ottla.client.offsets import commit_offsets, earliest_offsets, latest_offsets
from ottla.client.transactions import Identity, TransactionalProducer
from ottla.client.versions import Span
from ottla.spark.arrow.visible import Fetched, Window, seen_batches
from ottla.spark.sink.ending import commit_transaction, is_open
from ottla.spark.sink.exactly_once import Batch, BatchKey, Member, WrongBatch
from ottla.wire.batch import decode_records, encode_batch, new_records
from ottla.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest

_PARTITIONS = 8
_CONFIGS = {
    "cleanup.policy": "compact",
    # Tasks read the whole of it, so what compaction leaves alone is kept small.
    "segment.bytes": "1048576",
    "min.cleanable.dirty.ratio": "0.1",
}
_BROKERS_DEFAULT = -1
_KNOWS_BROKERS_DEFAULT = Span(4)
_GONE = {
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
}


class RowsLost(Exception):
    """A batch was decided, and a transaction of it had ended by then."""


@dataclass(frozen=True)
class Manifest:
    batch: int
    digest: bytes
    members: tuple[Member, ...]

    def as_bytes(self) -> bytes:
        members = [[*member.identity, member.is_joined_by_itself] for member in self.members]
        return json.dumps({"batch": self.batch, "digest": self.digest.hex(), "members": members}).encode()

    @classmethod
    def from_bytes(cls, content: bytes) -> "Manifest":
        found = json.loads(content)
        members = (Member(Identity(*identity), is_v2) for *identity, is_v2 in found["members"])
        return cls(found["batch"], bytes.fromhex(found["digest"]), tuple(members))


_NONE = Manifest(-1, b"", ())


class ManifestDecisions:
    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._cluster = cluster
        self._topic = topic

    async def last(self, key: BatchKey) -> LastCommit:
        manifest = await self._last_manifest(key)
        return LastCommit(manifest.batch, manifest.digest, True)

    async def decide(self, batch: Batch) -> None:
        key = batch.key
        place = await self._place(key)
        scribe = TransactionalProducer(self._cluster, f"{key.transactions}.manifest")
        await scribe.init()  # from here on no other driver decides about this query
        try:
            manifest = await self._last_manifest(key)
            if manifest.batch > key.number or (manifest.batch == key.number and manifest.digest != batch.digest):
                raise WrongBatch(
                    f"batch {key.number} of query {key.query} is refused: {manifest.batch} is written, another one"
                )
            if manifest.batch < key.number:
                await self._check_open(batch.members)
                manifest = Manifest(key.number, batch.digest, tuple(batch.members))
                record = new_records([(_record_key(key), manifest.as_bytes())], int(time.time() * 1000))
                await scribe.submit(place, encode_batch(record, producer=scribe.stamp(place, 1)))
                await scribe.commit()
        finally:
            await scribe.close()
        await self._carry_out(manifest)
        for group, offsets in batch.offsets.items():
            await commit_offsets(self._cluster, group, offsets)

    async def _check_open(self, members: Iterable[Member]) -> None:
        """Another driver, or a timeout, may have ended what these tasks left; then there is nothing to decide about."""
        for member in members:
            if not await is_open(self._cluster, member.identity):
                raise MembersLost(f"the transaction {member.identity.transactional_id} is not open any more")

    async def _carry_out(self, manifest: Manifest) -> None:
        """Again and again, if need be: a transaction that is committed already says so."""
        for identity, is_version_2 in manifest.members:
            try:
                await commit_transaction(self._cluster, identity, is_version_2)
            except BrokerRefused as refused:
                if refused.code not in _GONE:
                    raise
                raise RowsLost(
                    f"batch {manifest.batch} is decided, but its transaction {identity.transactional_id} is not open "
                    f"any more ({refused}): it reached its timeout before a driver ended it, and its rows are lost. "
                    "Write the batch again under another checkpoint; a longer kafka.transaction.timeout.ms helps"
                ) from None

    async def _last_manifest(self, key: BatchKey) -> Manifest:
        place = await self._place(key)
        start = int((await earliest_offsets(self._cluster, [place]))[place])
        end = int((await latest_offsets(self._cluster, [place]))[place])
        wanted, last, deadline = _record_key(key), _NONE, self._cluster.deadline()
        while start < end:
            answer = (await fetch(self._cluster, {place: start}, Appetite(), deadline))[place]
            if isinstance(answer, ClientFailure):
                if not answer.is_retriable or deadline.is_over:
                    raise answer
                continue
            last = _newest_in(answer, place, Window(start, end), wanted) or last
            start = _next(answer, start)
        return last

    async def _place(self, key: BatchKey) -> TopicPartition:
        count = await self._partition_count()
        return TopicPartition(TopicName(self._topic), zlib.crc32(_record_key(key)) % count)

    async def _partition_count(self) -> int:
        deadline = self._cluster.deadline()
        view = await self._cluster.patiently(lambda: self._cluster.learn([self._topic], deadline), deadline)
        if self._topic not in view.topics:
            await self._create_topic()
            return len((await self._cluster.topics([self._topic]))[self._topic].leaders)
        return len(view.topics[self._topic].leaders)

    async def _create_topic(self) -> None:
        configs = [CreatableTopicConfig(name, value) for name, value in _CONFIGS.items()]
        topic = CreatableTopic(self._topic, _PARTITIONS, _BROKERS_DEFAULT, configs=configs)
        deadline = self._cluster.deadline()

        async def ask() -> None:
            connection = await self._cluster.anyone()
            answer = await connection.ask(CreateTopicsRequest([topic]), deadline, _KNOWS_BROKERS_DEFAULT)
            for one in answer.topics:
                if one.error_code != ErrorCode.TOPIC_ALREADY_EXISTS:
                    check(one.error_code, one.error_message, f"the topic of manifests, {self._topic}")

        await self._cluster.patiently(ask, deadline)


def _newest_in(answer: Answer, place: TopicPartition, window: Window, wanted: bytes) -> Manifest | None:
    fetched = Fetched(place.topic, place.partition, answer.records, answer.aborted)
    newest = None
    for seen in seen_batches(fetched, window):
        if seen.is_visible:
            for record in decode_records(bytes(answer.records[seen.at : seen.at + seen.header.size])):
                if record.key == wanted and record.value is not None:
                    newest = Manifest.from_bytes(record.value)
    return newest


def _next(answer: Answer, start: int) -> int:
    fetched = Fetched("", 0, answer.records, ())
    return max((seen.header.next_offset for seen in seen_batches(fetched, Window(start))), default=start)


def _record_key(key: BatchKey) -> bytes:
    return f"{key.sink}\0{key.query}".encode()
