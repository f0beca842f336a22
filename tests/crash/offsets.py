"""Somebody who commits the offsets of many groups, deletes some, and knows what the node owes it after a crash."""

from __future__ import annotations

import random
import threading

from ottla.base.errors import ErrorCode
from ottla.wire.messages import offset_commit as oc
from ottla.wire.messages import offset_fetch as of
from ottla.wire.messages.delete_groups import DeleteGroupsRequest
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest

from .client import Client

NOTHING = -1
BUSY = frozenset({ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE})
Offsets = tuple[int, ...]
"""Of one group, by partition."""


class Committer:
    """One connection's worth of groups. Every commit writes a number that was never written before."""

    def __init__(self, number: int, topic: str, partitions: int, groups: int, seed: int) -> None:
        self.topic, self.partitions = topic, partitions
        self.groups = [f"committer-{number}-{at}" for at in range(groups)]
        self.answered: dict[str, Offsets] = dict.fromkeys(self.groups, (NOTHING,) * partitions)
        self.in_doubt: dict[str, Offsets] = {}
        """What was asked and not answered before the connection broke."""
        self.answers = 0
        self._random = random.Random(seed)
        self._last = 0

    def run(self, client: Client, stop: threading.Event) -> None:
        wait_coordinators(client, self.groups)
        while not stop.is_set():
            group = self._random.choice(self.groups)
            is_deletion = self._random.random() < 0.05
            self.in_doubt[group] = self._wanted(is_deletion)
            if is_deletion:
                code = client.ask(DeleteGroupsRequest([group])).results[0].error_code
                assert code in (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND), ErrorCode(code)
            else:
                self._commit(client, group)
            self.answered[group] = self.in_doubt.pop(group)
            self.answers += 1

    def abandon(self) -> None:
        """The connection is gone; what is in doubt stays so."""

    def _wanted(self, is_deletion: bool) -> Offsets:
        if is_deletion:
            return (NOTHING,) * self.partitions
        self._last += 1
        return tuple(self._last * 1000 + partition for partition in range(self.partitions))

    def _commit(self, client: Client, group: str) -> None:
        places = [oc.OffsetCommitRequestPartition(at, offset) for at, offset in enumerate(self.in_doubt[group])]
        topics = [oc.OffsetCommitRequestTopic(self.topic, partitions=places)]
        answer = client.ask(oc.OffsetCommitRequest(group, topics=topics))
        codes = {place.error_code for topic in answer.topics for place in topic.partitions}
        assert codes == {ErrorCode.NONE}, codes

    def check(self, client: Client) -> None:
        """All offsets are those of the last answered commit, or all those of the one that was never answered."""
        wait_coordinators(client, self.groups)
        partitions = list(range(self.partitions))
        for group in self.groups:
            topics = [of.OffsetFetchRequestTopics(self.topic, partition_indexes=partitions)]
            [found] = client.ask(
                of.OffsetFetchRequest(groups=[of.OffsetFetchRequestGroup(group, topics=topics)])
            ).groups
            assert found.error_code == ErrorCode.NONE, ErrorCode(found.error_code)
            kept = tuple(place.committed_offset for topic in found.topics for place in topic.partitions)
            possible = {self.answered[group], self.in_doubt.pop(group, self.answered[group])}
            assert kept in possible, f"{group} has {kept}, possible is {possible}"
            self.answered[group] = kept


def wait_coordinators(client: Client, groups: list[str]) -> None:
    """Until the coordinators of all these groups have loaded."""
    while any(
        one.error_code in BUSY for one in client.ask(FindCoordinatorRequest(coordinator_keys=groups)).coordinators
    ):
        pass
    for group in groups:
        while _is_busy(client, group):
            pass


def _is_busy(client: Client, group: str) -> bool:
    [found] = client.ask(of.OffsetFetchRequest(groups=[of.OffsetFetchRequestGroup(group, topics=None)])).groups
    return found.error_code in BUSY
