"""A driver: plans batches, lets tasks write them, and commits each by one CommitGroup. It may die at every step.

It runs no event loop while it forks, and has no threads, so that a task begins as a whole process.
"""

from __future__ import annotations

import asyncio
import os
import select
import sys
import time
import traceback
from dataclasses import dataclass
from random import Random
from typing import Any

from ottla.base.types import TopicPartition
from ottla.client.cluster import Cluster, Coordinator
from ottla.client.deadline import Deadline
from ottla.client.failures import ClientFailure
from ottla.client.group_commit import CommitRefused, GroupCommit, MembersLost, commit_group, describe_group_commit
from ottla.client.offsets import commit_offsets, fetch_offsets, latest_offsets
from ottla.client.transactions import Identity
from ottla.client.versions import ANY, Span
from ottla.wire.messages.commit_group import CommitGroupRequest
from ottla.wire.messages.end_txn import EndTxnRequest
from ottla.wire.primitives import Message
from tools.chaos.group_commits.checkpoint import Checkpoint, Ranges, digest_of
from tools.chaos.group_commits.fates import DRIVER, LONG_LIFE, Fate, Mortal
from tools.chaos.group_commits.setting import (
    GROUP,
    NEW_QUERY,
    OFFSETS_APART,
    ONE_BY_ONE,
    QUERY,
    SINK,
    SOURCE,
    Setting,
    places,
)
from tools.chaos.group_commits.task import Share, identity_from, work

DONE, DRAINED, REFUSED, FAILED = 0, 3, 4, 5
"""How a driver ends if it does not die: enough batches, nothing left, refused by the log, tired."""
TASK_SECONDS_MAX = 30.0
NEWS_SECONDS_MAX = 2.0
_PAUSE_S = 0.05
TASK_ATTEMPTS_MAX = 3
BATCH_ATTEMPTS_MAX = 5


@dataclass(frozen=True)
class Role:
    """Which driver it is: there may be others of the same query, who do not know of it."""

    name: str
    checkpoint: str
    fate: Fate = LONG_LIFE
    batches_max: int = 4
    until_drained: bool = False
    looks_first: bool = False
    """Asks whether a batch that it repeats is committed, before it lets it be written again."""


class WatchedCluster(Cluster):
    """Lets its driver die when the question has left, and no answer has come."""

    def __init__(self, setting: Setting, mortal: Mortal) -> None:
        super().__init__(setting.client())
        self._mortal = mortal

    async def ask_coordinator(
        self,
        kind: Coordinator,
        key: str,
        request: Message,
        deadline: Deadline,
        span: Span = ANY,
        is_slow: bool = False,
    ) -> Any:
        if not isinstance(request, CommitGroupRequest):
            return await super().ask_coordinator(kind, key, request, deadline, span, is_slow)
        connection = await self.coordinator(kind, key, deadline)
        asking = asyncio.create_task(connection.ask(request, deadline, span, is_slow))
        await asyncio.sleep(0)  # one turn of the loop: the request is written
        self._mortal.at("asked")
        return await asking


class Driver:
    def __init__(self, setting: Setting, role: Role) -> None:
        self._setting = setting
        self._role = role
        self._rng = Random(f"{setting.seed} {os.getpid()}")
        self._checkpoint = Checkpoint(setting.directory / role.checkpoint)
        self._mortal = Mortal(DRIVER, role.fate, setting)
        self._query = f"{QUERY}-{os.getpid()}" if setting.crime == NEW_QUERY else QUERY
        self._task_fate = role.fate if role.fate.role != DRIVER else LONG_LIFE

    def run(self) -> int:
        self._mortal.at("begun")
        try:
            for _ in range(1_000_000 if self._role.until_drained else self._role.batches_max):
                batch = self._next_batch()
                ranges = self._planned(batch)
                if ranges is None:
                    return DRAINED
                self._mortal.at("planned")
                if not self._is_there(batch, ranges):
                    self._write_and_commit(batch, ranges)
                self._checkpoint.mark_committed(batch)
                self._mortal.at("marked")
        except CommitRefused as refusal:
            self._tell("refused", why=str(refusal))
            return REFUSED
        except (ClientFailure, TimeoutError) as failure:
            self._tell("failed", why=repr(failure))
            return FAILED
        return DONE

    def _tell(self, event: str, **what: Any) -> None:
        self._setting.tell(event, driver=self._role.name, **what)

    def _next_batch(self) -> int:
        if self._setting.crime == OFFSETS_APART:  # it believes the log in this, and the group in where to go on
            return int(asyncio.run(self._describe()).batch) + 1
        return self._checkpoint.last_committed + 1

    def _planned(self, batch: int) -> Ranges | None:
        """The batch that was planned before the last death, or what has come in since."""
        if self._checkpoint.last_planned >= batch and self._setting.crime != OFFSETS_APART:
            return self._checkpoint.ranges(batch)
        deadline = Deadline(0.0 if self._role.until_drained else NEWS_SECONDS_MAX)
        while True:
            ranges = asyncio.run(self._news(batch))
            if any(start < end for start, end in ranges.values()):
                return ranges if self._setting.crime == OFFSETS_APART else self._checkpoint.plan(batch, ranges)
            if deadline.is_over:
                return None
            time.sleep(_PAUSE_S)

    async def _news(self, batch: int) -> Ranges:
        async with Cluster(self._setting.client()) as cluster:
            ends = await latest_offsets(cluster, list(places(SOURCE)))
            if self._setting.crime == OFFSETS_APART:
                kept = await fetch_offsets(cluster, GROUP)
                starts = {place.partition: int(one.offset) for place, one in kept.items()}
            else:
                before = self._checkpoint.ranges(batch - 1) if batch else {}
                starts = {partition: end for partition, (_, end) in before.items()}
        bound = self._setting.records_per_batch_max
        return {
            place.partition: (start := starts.get(place.partition, 0), min(int(end), start + bound))
            for place, end in ends.items()
        }

    def _is_there(self, batch: int, ranges: Ranges) -> bool:
        if not self._role.looks_first:
            return False
        last = asyncio.run(self._describe())
        if last.batch == batch and last.digest == digest_of(ranges):
            self._tell("found", batch=batch, ranges=ranges)
            return True
        return False  # and if it is another, the log refuses

    async def _describe(self) -> Any:
        async with Cluster(self._setting.client()) as cluster:
            return await describe_group_commit(cluster, SINK, self._query)

    def _write_and_commit(self, batch: int, ranges: Ranges) -> None:
        for attempt in range(BATCH_ATTEMPTS_MAX):
            members = self._written(batch, ranges, attempt)
            self._mortal.at("written")
            try:
                is_replay = asyncio.run(self._commit(batch, ranges, members))
            except MembersLost as lost:
                self._tell("lost", batch=batch, why=str(lost))
                continue
            self._tell("answered", batch=batch, ranges=ranges, is_replay=is_replay)
            self._mortal.at("answered")
            return
        raise TimeoutError(f"batch {batch} lost its members again and again")

    # Tasks

    def _written(self, batch: int, ranges: Ranges, attempt: int) -> list[Identity]:
        """One transaction for each share; which rows are in which share is another matter at each attempt."""
        shares: list[list[tuple[int, int, int]]] = [[] for _ in range(self._rng.randint(1, self._setting.tasks))]
        for partition, (start, end) in ranges.items():
            middle = self._rng.randint(start, end)
            for piece in ((partition, start, middle), (partition, middle, end)):
                if piece[1] < piece[2]:
                    self._rng.choice(shares).append(piece)
        # Ids that come again fence what is left of their last owner; others have to wait for its timeout.
        stem = f"chaos-{self._role.name}" if self._rng.random() < 0.7 else f"chaos-{os.getpid()}-{batch}-{attempt}"
        # Who writes nothing has no transaction open, and cannot be a member.
        full = [share for share in shares if share]
        return [self._insisted(Share(batch, f"{stem}-{slot}", tuple(share))) for slot, share in enumerate(full)]

    def _insisted(self, share: Share) -> Identity:
        """One task after the other would be slow, but the machine is small and death has more occasions."""
        for _ in range(TASK_ATTEMPTS_MAX):
            fate, self._task_fate = self._task_fate, LONG_LIFE
            told = identity_from(self._outcome_of(share, fate))
            if told is not None:
                return told
        raise TimeoutError(f"a task of batch {share.batch} died again and again")

    def _outcome_of(self, share: Share, fate: Fate) -> bytes:
        reader, teller = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reader)
            _run_task(self._setting, share, fate, teller)
        os.close(teller)
        told = b""
        try:
            while select.select([reader], [], [], TASK_SECONDS_MAX)[0] and (more := os.read(reader, 4096)):
                told += more
        finally:
            os.close(reader)
        os.waitpid(pid, 0)
        return told

    # Commit

    async def _commit(self, batch: int, ranges: Ranges, members: list[Identity]) -> bool:
        async with WatchedCluster(self._setting, self._mortal) as cluster:
            ends = {TopicPartition(SOURCE, partition): end for partition, (_, end) in ranges.items()}
            if self._setting.crime == ONE_BY_ONE:
                for member in members:
                    await _end(cluster, member)
                    self._mortal.at("asked")
                await commit_offsets(cluster, GROUP, ends)
                return False
            is_apart = self._setting.crime == OFFSETS_APART
            commit = GroupCommit(
                sink=SINK,
                query=self._query,
                batch=batch,
                digest=digest_of(ranges),
                members=members,
                offsets={} if is_apart else {GROUP: ends},
            )
            is_replay = await commit_group(cluster, commit)
            if is_apart:
                self._mortal.at("answered")
                await commit_offsets(cluster, GROUP, ends)
            return is_replay


async def _end(cluster: Cluster, member: Identity) -> None:
    async def ask() -> None:
        answer = await cluster.ask_coordinator(
            Coordinator.TRANSACTION, member.transactional_id, EndTxnRequest(*member, True), cluster.deadline()
        )
        cluster.heed(Coordinator.TRANSACTION, member.transactional_id, answer.error_code)

    await cluster.patiently(ask, cluster.deadline())


def _run_task(setting: Setting, share: Share, fate: Fate, teller: int) -> None:
    """In the child, which never returns from here."""
    code = 1
    try:
        asyncio.run(asyncio.wait_for(work(setting, share, fate, teller), TASK_SECONDS_MAX - 5))
        code = 0
    except (ClientFailure, TimeoutError) as failure:
        setting.tell("task failed", why=repr(failure))
    finally:
        os.close(teller)
        if sys.exc_info()[0] is not None:
            setting.tell("broken", why=traceback.format_exc())
        os._exit(code)
