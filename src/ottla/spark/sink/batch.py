"""The batch writer: `write.format("ottla")`. With `txnAppId` and `txnVersion` once, and else as one transaction."""

import uuid
import zlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from ottla.client.cluster import Cluster
from ottla.client.group_commit import GroupCommit, commit_group, describe_group_commit, supports_group_commit
from ottla.spark import connections, internals
from ottla.spark.sink.ending import clear_away, commit_transaction
from ottla.spark.sink.exactly_once import BatchKey, Member, Staged, abort_all
from ottla.spark.sink.options import SinkOptions
from ottla.spark.sink.staging import stage
from ottla.spark.sink.stream import abort_once, commit_once, staged_in, staged_once

if TYPE_CHECKING:
    import pyarrow as pa

_SLOTS = 4096
"""What decides about several transactions is remembered by name for ever, so plain writes share that many names."""
_SLOTS_SINK = "spark-writes"


class OnceBatchWriter(DataSourceArrowWriter):
    """A batch that has a name: the way for `foreachBatch`, whatever the output mode."""

    def __init__(self, options: SinkOptions) -> None:
        assert options.txn is not None
        self._options, self._txn = options, options.txn
        self._key = BatchKey(options.sink, options.txn.app_id, options.txn.version)

    def write(self, iterator: Iterator["pa.RecordBatch"]) -> Staged:
        return staged_once(self._options, self._key, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        commit_once(self._options, self._key, staged_in(messages), self._txn.checkpoint)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        abort_once(self._options, self._key)


class PlainBatchWriter(DataSourceArrowWriter):
    """All of the rows or none; but a write that is repeated is another write."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._key = BatchKey(options.sink, f"write.{uuid.uuid4().hex}", 0)

    def write(self, iterator: Iterator["pa.RecordBatch"]) -> Staged:
        cluster, place = connections.cluster_at(self._options.kafka), internals.task_place()
        member, row_count = stage(self._options, cluster, self._key.transactional_id(place), iterator)
        return Staged(self._key, place, member, row_count)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        members = [one.member for one in staged_in(messages) if one.member is not None]
        connections.run(self._commit(connections.cluster_at(self._options.kafka), members))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        connections.run(abort_all(connections.cluster_at(self._options.kafka), self._key))

    async def _commit(self, cluster: Cluster, members: Sequence[Member]) -> None:
        if len(members) > 1 and await supports_group_commit(cluster):
            await self._commit_as_one(cluster, members)
        else:
            # One is as good as a group; of several, without group commits, a driver that dies here leaves a part.
            for identity, is_version_2 in members:
                await commit_transaction(cluster, identity, is_version_2)
        await clear_away(cluster, self._key.transactions, {member.identity.transactional_id for member in members})

    async def _commit_as_one(self, cluster: Cluster, members: Sequence[Member]) -> None:
        """Two writes that meet in one slot at one moment: the second is refused, and all of it is aborted."""
        digest = self._key.query.encode()
        slot = str(zlib.crc32(digest) % _SLOTS)
        last = await describe_group_commit(cluster, _SLOTS_SINK, slot)
        identities = [member.identity for member in members]
        await commit_group(
            cluster,
            GroupCommit(sink=_SLOTS_SINK, query=slot, batch=last.batch + 1, digest=digest, members=identities),
        )
