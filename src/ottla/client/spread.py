"""Work on many partitions: each share goes to the leader, what moved meanwhile goes to the next one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

from ottla.base.types import TopicPartition
from ottla.client.cluster import Cluster
from ottla.client.connection import Connection
from ottla.client.deadline import Deadline
from ottla.client.failures import BrokerRefused, ClientFailure, Unreachable
from ottla.client.metadata import NO_LEADER
from ottla.client.pool import Lane

R = TypeVar("R")


class NoAnswer(ClientFailure):
    """The broker answered, and left this partition out."""

    is_retriable = True


Outcomes = dict[TopicPartition, R | ClientFailure]
Ask = Callable[[Connection, Sequence[TopicPartition]], Awaitable[Mapping[TopicPartition, R | ClientFailure]]]


async def ask_leaders(
    cluster: Cluster, places: Sequence[TopicPartition], ask: Ask[R], deadline: Deadline, lane: Lane = Lane.ORDINARY
) -> Outcomes[R]:
    """One attempt: what each leader says of its partitions, or why it says nothing."""
    groups = await cluster.by_leader(places, deadline)
    outcomes: Outcomes[R] = {place: cluster.absence(place) for place in groups.pop(NO_LEADER, ())}
    shares = [_ask_one(cluster, node_id, share, ask, lane) for node_id, share in groups.items()]
    for answered in await asyncio.gather(*shares):
        outcomes.update(answered)
    return outcomes


async def _ask_one(
    cluster: Cluster, node_id: int, places: Sequence[TopicPartition], ask: Ask[R], lane: Lane
) -> Mapping[TopicPartition, R | ClientFailure]:
    try:
        answered = await ask(await cluster.broker(node_id, lane), places)
    except ClientFailure as failure:
        if isinstance(failure, Unreachable):
            cluster.note_unreachable(node_id)
        if not failure.is_retriable:
            raise
        return dict.fromkeys(places, failure)
    outcomes: Outcomes[R] = {place: answered.get(place, NoAnswer(str(place))) for place in places}
    for place, outcome in outcomes.items():
        if isinstance(outcome, BrokerRefused):
            cluster.note(place, outcome.code)
    return outcomes


async def insist(
    cluster: Cluster, places: Sequence[TopicPartition], ask: Ask[R], deadline: Deadline
) -> dict[TopicPartition, R]:
    """An answer for every partition; the first failure that stays is raised. For questions that change nothing."""
    done: dict[TopicPartition, R] = {}
    failure: ClientFailure | None = None
    async for _ in deadline.attempts(cluster.backoff):
        missing = [place for place in places if place not in done]
        try:
            outcomes = await ask_leaders(cluster, missing, ask, deadline)
        except ClientFailure as lost:
            if not lost.is_retriable:
                raise
            failure = lost
            continue
        failure = None
        for place, outcome in outcomes.items():
            if not isinstance(outcome, ClientFailure):
                done[place] = outcome
            elif not outcome.is_retriable:
                raise outcome
            else:
                failure = outcome
        if failure is None:
            return done
    assert failure is not None
    raise failure
