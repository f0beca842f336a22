"""CommitGroup: the transactions of many producers and the offsets of their sources, committed as one (ADR 9).

Only nodes of our own have it. Asking again is always safe: the same batch with the same digest is a replay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ottla.base.errors import ErrorCode
from ottla.base.types import TopicPartition
from ottla.client.cluster import Cluster, Coordinator
from ottla.client.deadline import Deadline
from ottla.client.failures import ClientFailure
from ottla.client.metadata import by_topic
from ottla.client.transactions import Identity
from ottla.wire.messages.commit_group import (
    CommitGroupMember,
    CommitGroupOffsets,
    CommitGroupPartition,
    CommitGroupRequest,
    CommitGroupResponse,
    CommitGroupTopic,
)
from ottla.wire.messages.describe_group_commit import DescribeGroupCommitRequest, DescribeGroupCommitResponse
from ottla.wire.messages.index import ApiKey

_SEPARATOR = "\0"
DECIDING_S_MAX = 30.0
"""So long the coordinator waits for the promises of all members; then it gives up, and says so."""


class CommitRefused(ClientFailure):
    """The batch is not the one that may follow: another checkpoint, or one that was set back. Do not go on."""


class MembersLost(ClientFailure):
    """A member's transaction is not open any more, so none is committed: the batch is to be written anew."""


@dataclass(frozen=True, kw_only=True)
class GroupCommit:
    sink: str
    query: str
    batch: int
    digest: bytes
    """Of what the batch is made from. Told apart by it: a replay, and another batch under the same number."""
    members: Sequence[Identity]
    """Those who have written: a producer whose `is_open` is false has no transaction that could be committed."""
    offsets: Mapping[str, Mapping[TopicPartition, int]] = field(default_factory=dict)
    """By group, where its sources go on after this batch."""


@dataclass(frozen=True)
class LastCommit:
    batch: int
    """-1: there was none."""
    digest: bytes
    is_complete: bool
    """Whether all members and groups have been told."""


async def supports_group_commit(cluster: Cluster, deadline: Deadline | None = None) -> bool:
    deadline = deadline or cluster.deadline()
    connection = await cluster.patiently(cluster.anyone, deadline)
    return connection.versions.serves(ApiKey.COMMIT_GROUP)


async def commit_group(cluster: Cluster, commit: GroupCommit, deadline: Deadline | None = None) -> bool:
    """Returns whether it is a replay: the batch was committed before, and these members are aborted."""
    deadline = deadline or cluster.deadline()
    key = commit.sink + _SEPARATOR + commit.query
    request = _request(commit)

    async def ask() -> bool:
        patience = Deadline(min(deadline.left_s, DECIDING_S_MAX + cluster.settings.request_s))
        answer: CommitGroupResponse = await cluster.ask_coordinator(
            Coordinator.TRANSACTION, key, request, patience, is_slow=True
        )
        why = answer.error_message or ""
        if answer.error_code == ErrorCode.INVALID_REQUEST:
            raise CommitRefused(why)
        if answer.error_code == ErrorCode.INVALID_TXN_STATE:
            raise MembersLost(why)
        cluster.heed(Coordinator.TRANSACTION, key, answer.error_code, why, f"batch {commit.batch} of {commit.query}")
        return answer.is_replay

    return await cluster.patiently(ask, deadline)


async def describe_group_commit(
    cluster: Cluster, sink: str, query: str, deadline: Deadline | None = None
) -> LastCommit:
    """What was committed last, for whoever is about to repeat a batch."""
    deadline = deadline or cluster.deadline()
    key = sink + _SEPARATOR + query
    request = DescribeGroupCommitRequest(sink, query)

    async def ask() -> LastCommit:
        answer: DescribeGroupCommitResponse = await cluster.ask_coordinator(
            Coordinator.TRANSACTION, key, request, deadline
        )
        cluster.heed(Coordinator.TRANSACTION, key, answer.error_code, answer.error_message, f"{query} to {sink}")
        return LastCommit(answer.batch, bytes(answer.digest), answer.is_complete)

    return await cluster.patiently(ask, deadline)


def _request(commit: GroupCommit) -> CommitGroupRequest:
    return CommitGroupRequest(
        commit.sink,
        commit.query,
        commit.batch,
        commit.digest,
        [CommitGroupMember(*member) for member in commit.members],
        [_offsets(group_id, offsets) for group_id, offsets in commit.offsets.items()],
    )


def _offsets(group_id: str, offsets: Mapping[TopicPartition, int]) -> CommitGroupOffsets:
    topics: dict[str, CommitGroupTopic] = {name: CommitGroupTopic(name) for name in by_topic(offsets)}
    for place, offset in offsets.items():
        topics[place.topic].partitions.append(CommitGroupPartition(place.partition, offset))
    return CommitGroupOffsets(group_id, list(topics.values()))
