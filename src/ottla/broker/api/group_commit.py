"""CommitGroup and DescribeGroupCommit: our own, for engines that write a batch with many producers (ADR 9)."""

from ottla.broker.route import Call, Route, answering, private
from ottla.core.transactions import asks
from ottla.core.transactions.placement import commit_key
from ottla.core.transactions.records import GroupOffset, Member
from ottla.runtime.transaction_coordinator import TransactionCoordinator
from ottla.wire.messages.commit_group import CommitGroupRequest, CommitGroupResponse
from ottla.wire.messages.describe_group_commit import DescribeGroupCommitRequest, DescribeGroupCommitResponse
from ottla.wire.messages.index import ApiKey


class GroupCommitApi:
    def __init__(self, transactions: TransactionCoordinator) -> None:
        self._transactions = transactions

    def routes(self) -> tuple[Route, ...]:
        return (
            Route(ApiKey.COMMIT_GROUP, private(0, 0), self.commit),
            Route(ApiKey.DESCRIBE_GROUP_COMMIT, private(0, 0), self.describe),
        )

    async def commit(self, call: Call[CommitGroupRequest]) -> CommitGroupResponse:
        """CommitGroup: all members' transactions and the offsets, or none of them; a batch counts once."""
        ask = call.request
        commit = asks.CommitGroup(
            sink=ask.sink,
            query=ask.query,
            batch=ask.batch,
            members=tuple(Member(one.transactional_id, one.producer_id, one.producer_epoch) for one in ask.members),
            offsets=tuple(
                GroupOffset(group.group_id, topic.name, one.partition_index, one.committed_offset)
                for group in ask.groups
                for topic in group.topics
                for one in topic.partitions
            ),
            digest=bytes(ask.digest),
        )
        response = CommitGroupResponse()
        with answering(response):
            reply: asks.GroupCommitReply = await self._transactions.ask(
                commit_key(ask.sink, ask.query), lambda core, now_ms: core.commit_group(commit, now_ms)
            )
            response.error_code = int(reply.error)
            response.error_message = reply.why or None
            response.is_replay = reply.is_replay
        return response

    async def describe(self, call: Call[DescribeGroupCommitRequest]) -> DescribeGroupCommitResponse:
        """DescribeGroupCommit: the last batch that was committed, for who is about to repeat one."""
        ask = call.request
        response = DescribeGroupCommitResponse()
        with answering(response):
            wanted = asks.DescribeGroup(ask.sink, ask.query)
            found: asks.DescribedGroup = await self._transactions.ask(
                commit_key(ask.sink, ask.query), lambda core, now_ms: core.describe_group(wanted, now_ms)
            )
            response.batch, response.digest, response.is_complete = found.batch, found.digest, found.is_complete
        return response
