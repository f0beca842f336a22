"""Keeps drivers coming: each life has a fate, some have a double, some begin with a checkpoint of last week.

`python -m tools.chaos.group_commits.supervisor SETTING`, until it reads a line; then it lets the source be drained.
It is a process without threads, so that it may fork.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import sys
import time
import traceback
from collections import deque
from dataclasses import replace
from random import Random

from ottla.client.cluster import Cluster
from ottla.client.group_commit import LastCommit, describe_group_commit
from ottla.client.offsets import fetch_offsets
from tools.chaos.group_commits.checkpoint import Checkpoint
from tools.chaos.group_commits.driver import DRAINED, REFUSED, Driver, Role
from tools.chaos.group_commits.fates import AT_ANY_TIME, DRIVER, EVERY_STEP, LONG_LIFE, TASK, Fate, draw, draw_pause
from tools.chaos.group_commits.setting import GROUP, PARTITIONS, QUERY, SINK, Setting

MAIN = "main"
LIFE_SECONDS_MAX = 60.0
FINAL_LIVES_MAX = 10
BACKUP_EVERY = 3
"""Lives between two backups of the checkpoint."""
OLD_ENOUGH = 3
"""Batches. A younger backup may, by chance, plan the batch again that was committed: that is a replay."""
_BROKEN = 9


class Supervisor:
    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._rng = Random(setting.seed)
        self._checkpoint = Checkpoint(setting.checkpoint)
        self._lives = 0
        self._fates: deque[Fate] = deque()
        self._doubles: dict[int, str] = {}
        """By process, the checkpoint that each works on."""
        self._backups: list[Checkpoint] = []

    def run(self) -> int:
        while not _is_told():
            fate = self._next_fate()
            self._one_life(fate)
            if fate.step != AT_ANY_TIME and not self._is_met(fate):
                self._fates.append(fate)  # another one came first
        for pid in list(self._doubles):
            self._wait(pid)
        for _ in range(FINAL_LIVES_MAX):
            role = Role(MAIN, self._setting.checkpoint.name, until_drained=True)
            if self._wait(self._fork(role)) == DRAINED:
                return 0
        return 1

    def _next_fate(self) -> Fate:
        """Every step in some order, with deaths at any time in between, and again."""
        if self._rng.random() < 0.25:
            return draw(self._rng, self._rng.choice((DRIVER, TASK)))
        if not self._fates:
            wanted = [fate for fate in EVERY_STEP if fate.name in self._setting.fates] or EVERY_STEP
            self._fates.extend(self._rng.sample(wanted, len(wanted)))
        return self._fates.popleft()

    def _is_met(self, fate: Fate) -> bool:
        return any(row["event"] == "met" and row["fate"] == fate.name for row in self._setting.told())

    def _one_life(self, fate: Fate) -> None:
        self._lives += 1
        role = Role(MAIN, self._setting.checkpoint.name, fate, looks_first=self._rng.random() < 0.4)
        is_restored = self._lives % 7 == 0 and self._restore_backup()
        if self._lives % BACKUP_EVERY == 0:
            self._back_up()
        if self._lives % 5 == 0:
            self._start_double(of_its_own=self._rng.random() < 0.5)
        # Whoever begins with an old backup is to live long enough to be refused.
        code = self._wait(self._fork(replace(role, fate=LONG_LIFE, looks_first=False) if is_restored else role))
        self._setting.tell("life", fate=role.fate.name, code=code, is_restored=is_restored)
        for pid in [pid for pid in self._doubles if os.waitpid(pid, os.WNOHANG)[0]]:
            del self._doubles[pid]

    def _start_double(self, of_its_own: bool) -> None:
        """A second driver that takes itself for the only one; on the same checkpoint, or on a copy."""
        name = f"double-{self._lives}"
        checkpoint = self._setting.checkpoint.name
        if of_its_own:
            checkpoint = self._checkpoint.copy_to(self._setting.directory / name).directory.name
        self._setting.tell("double", driver=name, of_its_own=of_its_own)
        role = Role(name, checkpoint, draw_pause(self._rng), batches_max=2)
        self._doubles[self._fork(role)] = checkpoint

    def _back_up(self) -> None:
        directory = self._setting.directory / f"backup-{self._lives}"
        self._backups.append(self._checkpoint.copy_to(directory))

    def _restore_backup(self) -> bool:
        """One so old that going on from it would lose or double something, if the log did not refuse."""
        last = self._last_commit().batch
        old = [backup for backup in self._backups if backup.last_planned <= last - OLD_ENOUGH]
        if not old:
            return False
        self._wait_for_sharers()
        self._checkpoint.become(old[-1])
        self._setting.tell("restored", planned=old[-1].last_planned, last=last)
        return True

    # Processes

    def _fork(self, role: Role) -> int:
        pid = os.fork()
        if pid == 0:
            code = _BROKEN
            try:
                code = Driver(self._setting, role).run()
            finally:
                if sys.exc_info()[0] is not None:
                    self._setting.tell("broken", why=traceback.format_exc())
                os._exit(code)
        return pid

    def _wait(self, pid: int) -> int:
        """How it ended; and whoever was refused gets help."""
        deadline = time.monotonic() + LIFE_SECONDS_MAX
        while True:
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                break
            if time.monotonic() > deadline:
                self._setting.tell("broken", why=f"a driver hangs: {self._doubles.get(pid, MAIN)}")
                os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)
        code = os.waitstatus_to_exitcode(status)
        if self._doubles.pop(pid, None) is None and code == REFUSED:
            self._repair()
        return code

    def _wait_for_sharers(self) -> None:
        """Nobody changes a checkpoint under a driver that works on it: all drivers can do is to read it wrongly."""
        for pid in [pid for pid, checkpoint in self._doubles.items() if checkpoint == self._setting.checkpoint.name]:
            self._wait(pid)

    def _repair(self) -> None:
        """What an operator does after a refusal: believe the log, and begin anew behind what it has committed."""
        self._wait_for_sharers()
        last, kept = self._insist()
        offsets = {place.partition: int(one.offset) for place, one in kept.items()}
        said = {one.metadata for one in kept.values()}
        if last.batch >= 0 and (said != {f"batch {last.batch} of {QUERY} to {SINK}"} or len(offsets) != PARTITIONS):
            self._setting.tell("broken", why=f"batch {last.batch} is complete, but its offsets say {sorted(said)}")
        self._checkpoint.begin_after(last.batch, offsets)
        self._setting.tell("repaired", batch=last.batch, offsets=offsets)

    def _insist(self) -> tuple[LastCommit, dict]:  # type: ignore[type-arg]
        deadline = time.monotonic() + LIFE_SECONDS_MAX
        while time.monotonic() < deadline:
            last = self._last_commit()
            if last.is_complete:
                return last, asyncio.run(self._offsets())
            time.sleep(0.05)
        raise TimeoutError("a group commit is not told to all of its members")

    def _last_commit(self) -> LastCommit:
        async def ask() -> LastCommit:
            async with Cluster(self._setting.client()) as cluster:
                return await describe_group_commit(cluster, SINK, QUERY)

        return asyncio.run(ask())

    async def _offsets(self) -> dict:  # type: ignore[type-arg]
        async with Cluster(self._setting.client()) as cluster:
            return await fetch_offsets(cluster, GROUP)


def _is_told() -> bool:
    return bool(select.select([sys.stdin], [], [], 0)[0])


if __name__ == "__main__":
    sys.exit(Supervisor(Setting.from_text(sys.argv[1])).run())
