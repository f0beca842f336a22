"""Exactly once: the one place that knows how.

Every attempt of a task writes into a transaction of its own and leaves it open; its name, the *member*, travels to the
driver. There one decision ends all of them, filed under the sink, the query and the number of the batch. So

- a task that fails, or is tried twice, leaves nothing: its transaction is not among the members, and is cleared away;
- a batch that is repeated finds itself decided, and writes nothing;
- a batch that has the number of another one, as after a checkpoint was restored, is told by its digest and refused;
- where the sources go on is part of the decision, for groups of the same cluster.

What is decided is never undone: an abort after a decision does nothing.
"""

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from pyspark.sql.datasource import WriterCommitMessage

from ottla.base.types import TopicPartition
from ottla.client.cluster import Cluster
from ottla.client.group_commit import (
    CommitRefused,
    GroupCommit,
    LastCommit,
    commit_group,
    describe_group_commit,
)
from ottla.client.transactions import Identity
from ottla.spark.internals import TaskPlace
from ottla.spark.sink.ending import clear_away
from ottla.spark.source.progress import Progress

GroupOffsets = Mapping[str, Mapping[TopicPartition, int]]
_KILLING_SECONDS = 6.0
"""Spark looks every two seconds whether a task is to be killed, and then gives its worker two seconds to end by itself
(`spark.python.task.killTimeout`). Until then the worker may begin its transaction."""
_KILLING_SECONDS_MAX = 20.0
_LOOK_SECONDS = 0.5


class WrongBatch(Exception):
    """This query has been further already: its checkpoint is not the one that the output was written with."""

    def __init__(self, why: str) -> None:
        super().__init__(
            f"{why}. The checkpoint seems to be older than the output, for example restored from a backup: going on "
            "would lose records without a word. Restore the newest checkpoint; or begin a new one, which writes again "
            "what it reads, under a new query"
        )


class BatchKey(NamedTuple):
    """What is written once."""

    sink: str
    query: str
    number: int

    @property
    def transactions(self) -> str:
        """How the names of all its transactions begin."""
        return f"spark.{self.query}.{self.sink}"

    def transactional_id(self, place: TaskPlace) -> str:
        """The same for the next batch, and for a repetition, which thereby aborts what the last try left open."""
        return f"{self.transactions}.{place.partition}.{place.attempt}"


class Member(NamedTuple):
    """A transaction that a task has left open."""

    identity: Identity
    is_joined_by_itself: bool
    """Of version 2, in which batches join by themselves and every end moves the epoch on."""


@dataclass
class Staged(WriterCommitMessage):
    """What a task tells the driver. No member: it had no rows, or the batch was written before."""

    key: BatchKey
    place: TaskPlace
    member: Member | None
    row_count: int = 0


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Everything that is decided about a batch at once."""

    key: BatchKey
    digest: bytes
    members: Sequence[Member]
    offsets: GroupOffsets


class Decisions(Protocol):
    """Who decides about batches and remembers the last one of each sink and query."""

    async def last(self, key: BatchKey) -> LastCommit: ...

    async def decide(self, batch: Batch) -> None: ...


class GroupDecisions:
    """A node of ours: one request ends all, and whatever dies meanwhile, the node brings it to its end (ADR 9)."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def last(self, key: BatchKey) -> LastCommit:
        return await describe_group_commit(self._cluster, key.sink, key.query)

    async def decide(self, batch: Batch) -> None:
        sink, query, number = batch.key
        try:
            await commit_group(
                self._cluster,
                GroupCommit(
                    sink=sink,
                    query=query,
                    batch=number,
                    digest=batch.digest,
                    members=[member.identity for member in batch.members],
                    offsets=batch.offsets,
                ),
            )
        except CommitRefused as refused:
            raise WrongBatch(f"batch {number} of query {query} is refused: {refused}") from None


async def is_written(decisions: Decisions, key: BatchKey) -> bool:
    """Whether this batch is decided, so that a task need not write it again."""
    last = await decisions.last(key)
    if last.batch > key.number:
        raise WrongBatch(f"batch {last.batch} of query {key.query} is written, and batch {key.number} is to come now")
    return last.batch == key.number


async def commit(decisions: Decisions, cluster: Cluster, batch: Batch) -> None:
    await decisions.decide(batch)
    await clear_away(cluster, batch.key.transactions, {member.identity.transactional_id for member in batch.members})


async def abort(decisions: Decisions, cluster: Cluster, key: BatchKey) -> None:
    """Spark calls this, too, after a commit whose answer was lost: then there is nothing to undo."""
    if (await decisions.last(key)).batch < key.number:
        await abort_all(cluster, key)


async def abort_all(cluster: Cluster, key: BatchKey) -> None:
    """What the tasks of a batch have left, and what those leave that are just being killed: they work on for a while.

    It is over when nothing has turned up for as long as such a task may live.
    """
    now = asyncio.get_running_loop().time
    began = quiet_since = now()
    while True:
        if await clear_away(cluster, key.transactions, ()):
            quiet_since = now()
        if now() - quiet_since >= _KILLING_SECONDS or now() - began >= _KILLING_SECONDS_MAX:
            return
        await asyncio.sleep(_LOOK_SECONDS)


def digest_of(sources: Sequence[str], sources_before: Sequence[str]) -> bytes:
    """Tells the batches apart that bear one number: where each source comes from and gets to."""
    digest = hashlib.sha256()
    for line in (*sources_before, "", *sources):
        digest.update(line.encode())
        digest.update(b"\n")
    return digest.digest()[:16]


def group_offsets_of(sources: Sequence[Progress], brokers: str) -> GroupOffsets:
    """Where consumer groups of the cluster that is written to go on after this batch."""
    offsets: dict[str, dict[TopicPartition, int]] = {}
    for one in sources:
        if one.group is not None and one.group.brokers == brokers:
            offsets.setdefault(one.group.name, {}).update(one.ends)
    return offsets
