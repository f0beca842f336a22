"""Ending transactions of others: what a task has left open is ended by the driver, in its name."""

import asyncio
from collections.abc import Collection
from contextlib import suppress

from ottla.base.errors import ErrorCode
from ottla.client.cluster import Cluster, Coordinator
from ottla.client.failures import ClientFailure, Unsupported
from ottla.client.transactions import Identity, TransactionalProducer
from ottla.client.versions import Span
from ottla.wire.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse

_MOVES_EPOCH_FROM = 5
"""The version of EndTxn by which a client says that its transactions are of version 2."""

_CLEARING_TIMEOUT_MS = 1000
_ONGOING = "Ongoing"


async def commit_transaction(cluster: Cluster, identity: Identity, is_version_2: bool) -> None:
    """Asked again, it is answered as the first time."""
    await _end(cluster, identity, True, is_version_2)


async def abort_transaction(cluster: Cluster, identity: Identity, is_version_2: bool) -> None:
    await _end(cluster, identity, False, is_version_2)


async def _end(cluster: Cluster, identity: Identity, is_commit: bool, is_version_2: bool) -> None:
    name = identity.transactional_id
    request = EndTxnRequest(*identity, is_commit)
    span = Span(_MOVES_EPOCH_FROM) if is_version_2 else Span(at_most=_MOVES_EPOCH_FROM - 1)
    deadline = cluster.deadline()

    async def ask() -> None:
        answer: EndTxnResponse = await cluster.ask_coordinator(Coordinator.TRANSACTION, name, request, deadline, span)
        if not is_commit and answer.error_code == ErrorCode.INVALID_TXN_STATE:
            return  # it had not begun, or is over
        cluster.heed(Coordinator.TRANSACTION, name, answer.error_code)

    await cluster.patiently(ask, deadline)


async def is_open(cluster: Cluster, identity: Identity) -> bool:
    """Whether this producer's transaction can be ended by it still; so it seems, too, where nobody can tell."""
    name, deadline = identity.transactional_id, cluster.deadline()

    async def ask() -> bool:
        try:
            answer: DescribeTransactionsResponse = await cluster.ask_coordinator(
                Coordinator.TRANSACTION, name, DescribeTransactionsRequest([name]), deadline
            )
        except Unsupported:  # before Kafka 3.0
            return True
        [found] = answer.transaction_states
        if found.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            return False
        cluster.heed(Coordinator.TRANSACTION, name, found.error_code)
        owner = (found.producer_id, found.producer_epoch)
        return found.transaction_state == _ONGOING and owner == (identity.producer_id, identity.epoch)

    return await cluster.patiently(ask, deadline)


async def clear_away(cluster: Cluster, begin: str, kept: Collection[str]) -> int:
    """Abort the open transactions named `begin`.task.attempt, but for those that are kept; how many there were.

    A worker that was killed leaves its transaction open, and readers of what is committed would wait for its timeout.
    Nothing depends on this being done, so what fails is left to that timeout.
    """
    cleared = 0
    with suppress(ClientFailure):
        names = [name for name in await _open_transactions(cluster) if name.rsplit(".", 2)[0] == begin]
        for name in names:
            if name not in kept:
                await TransactionalProducer(cluster, name, _CLEARING_TIMEOUT_MS).init()
                cleared += 1
    return cleared


async def _open_transactions(cluster: Cluster) -> list[str]:
    deadline = cluster.deadline()
    await cluster.learn([], deadline)
    shares = [_open_at(cluster, node_id) for node_id in cluster.view.brokers]
    return [name for share in await asyncio.gather(*shares) for name in share]


async def _open_at(cluster: Cluster, node_id: int) -> list[str]:
    connection = await cluster.broker(node_id)
    try:
        answer: ListTransactionsResponse = await connection.ask(
            ListTransactionsRequest(state_filters=[_ONGOING]), cluster.deadline()
        )
    except Unsupported:  # before Kafka 3.0
        return []
    return [one.transactional_id for one in answer.transaction_states]
