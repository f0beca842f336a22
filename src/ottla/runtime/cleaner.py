"""Runs compaction: picks the dirtiest log, lets a thread rewrite it, swaps the result in on the loop.

The rules are in `storage.compaction_plan`, the work in `storage.compaction`; here is only who does what when.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import structlog

from ottla.base.broker_settings import BrokerConfig
from ottla.runtime.courtesy import Courtesy
from ottla.runtime.disk import Disk
from ottla.runtime.partition import Partition
from ottla.runtime.replicas import Replicas
from ottla.storage.compaction import MAP_BYTES, Cleaning, CleaningOvertaken, survey
from ottla.storage.compaction_files import Uncleanable
from ottla.storage.compaction_plan import CleaningPlan

log = structlog.get_logger(__name__)


class Cleaner:
    def __init__(self, config: BrokerConfig, replicas: Replicas, disk: Disk, now_ms: Callable[[], int]) -> None:
        self._threads = config.log_cleaner_threads if config.log_cleaner_enable else 0
        self._map_bytes = min(MAP_BYTES, config.log_cleaner_dedupe_buffer_size * 9 // 10 // max(self._threads, 1))
        self._backoff_seconds = config.log_cleaner_backoff_ms / 1000
        self._replicas = replicas
        self._disk = disk
        self._now_ms = now_ms
        self._busy: set[Partition] = set()
        self._uncleanable: set[Partition] = set()
        self._tasks: list[asyncio.Task[None]] = []
        self._is_stopping = False
        # Threads of their own: a round may take minutes, and fsyncs must not queue behind it.
        self._pool = ThreadPoolExecutor(max(self._threads, 1), thread_name_prefix="cleaner")

    def start(self, on_fatal: Callable[[BaseException], None]) -> None:
        for _ in range(self._threads):
            task = asyncio.get_running_loop().create_task(self._clean_forever())
            task.add_done_callback(
                lambda done: None if done.cancelled() or done.exception() is None else on_fatal(done.exception())  # type: ignore[arg-type]
            )
            self._tasks.append(task)

    async def stop(self) -> None:
        """Rounds under way are given up; what they have drafted is removed at the next start."""
        self._is_stopping = True
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        self._pool.shutdown(wait=True)

    async def _clean_forever(self) -> None:
        while True:
            found = self._dirtiest()
            if found is None:
                await asyncio.sleep(self._backoff_seconds)
                continue
            partition, plan = found
            self._busy.add(partition)
            try:
                is_done = await self._clean(partition, plan)
            finally:
                self._busy.discard(partition)
            if not is_done:
                await asyncio.sleep(self._backoff_seconds)  # a full disk, say, is not emptier at once

    def _dirtiest(self) -> tuple[Partition, CleaningPlan] | None:
        """The log to clean next: any that is overdue, else the one with the largest part that is dirty."""
        best: tuple[tuple[bool, float], Partition, CleaningPlan] | None = None
        for partition in self._replicas.of_topics(lambda config: config.is_compacted):
            if partition in self._busy or partition in self._uncleanable:
                continue
            checkpoint = self._replicas.home_of(partition).cleaner_offsets.get(partition.key)
            plan = survey(partition.log, checkpoint, partition.last_stable_offset, self._now_ms())
            if not plan.dirty_bytes:
                continue
            if not plan.is_overdue and plan.dirty_ratio <= partition.config.min_cleanable_dirty_ratio:
                continue
            urgency = (plan.is_overdue, plan.dirty_ratio)
            if best is None or urgency > best[0]:
                best = (urgency, partition, plan)
        return best and best[1:]

    async def _clean(self, partition: Partition, plan: CleaningPlan) -> bool:
        directory = self._replicas.home_of(partition)
        try:
            await self._round(partition, plan)
            return True
        except CleaningOvertaken:
            log.info("compaction overtaken", partition=str(partition.key))
        except Uncleanable as problem:
            self._uncleanable.add(partition)
            log.error("compaction impossible", partition=str(partition.key), reason=str(problem))
        except OSError as problem:
            self._replicas.storage_failed(directory, problem)
        return False

    async def _round(self, partition: Partition, plan: CleaningPlan) -> None:
        loop = asyncio.get_running_loop()
        cleaning = Cleaning(
            partition.log,
            plan,
            self._now_ms(),
            progress=self._check_stopping,
            pause=Courtesy(),
            map_bytes=self._map_bytes,
        )
        await loop.run_in_executor(self._pool, cleaning.read_keys)
        while (rewritten := await loop.run_in_executor(self._pool, cleaning.rewrite_next)) is not None:
            try:
                removed = cleaning.swap(rewritten)
            except CleaningOvertaken:
                await loop.run_in_executor(self._pool, cleaning.discard, rewritten)
                raise
            self._replicas.delete_later(partition, removed)
        await loop.run_in_executor(self._pool, cleaning.settle)
        directory = self._replicas.home_of(partition)
        await self._disk.run(directory.write_cleaner_offset, partition.key, cleaning.end_offset)
        log.info("log compacted", partition=str(partition.key), end_offset=cleaning.end_offset)

    def _check_stopping(self) -> None:
        if self._is_stopping:
            raise CleaningOvertaken("the node is stopping")
