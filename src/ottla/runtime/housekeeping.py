"""What a node does from time to time: checkpoints, flushes by age, retention, compaction, forgetting idle producers.

Each chore is one method and one row in `_chores`. Chores run on the loop and hand everything that blocks to the disk
threads; one that fails with OSError takes its log directory offline, as any other use of the directory would.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog

from ottla.base.broker_settings import BrokerConfig
from ottla.base.topic_settings import MAX_LONG
from ottla.base.types import TopicPartition
from ottla.runtime.disk import Disk
from ottla.runtime.partition import Partition
from ottla.runtime.replicas import Replicas
from ottla.storage.directory import LogDirectory

log = structlog.get_logger(__name__)

_PRODUCER_EXPIRY_MS = 600_000
_FLUSH_CHECK_MS = 500
Offsets = dict[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class _Chore:
    every_ms: int
    first_after_ms: int
    run: Callable[[], Awaitable[None]]


class Housekeeping:
    def __init__(self, config: BrokerConfig, replicas: Replicas, disk: Disk, now_ms: Callable[[], int]) -> None:
        self._config = config
        self._replicas = replicas
        self._disk = disk
        self._now_ms = now_ms
        self._tasks: list[asyncio.Task[None]] = []
        self._written: dict[tuple[LogDirectory, str], Offsets] = {}
        self._writing: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    def start(self, on_fatal: Callable[[BaseException], None]) -> None:
        loop = asyncio.get_running_loop()
        for chore in self._chores():
            task = loop.create_task(self._repeat(chore))
            task.add_done_callback(lambda done: _report(done, on_fatal))
            self._tasks.append(task)

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _chores(self) -> tuple[_Chore, ...]:
        config, delay = self._config, self._config.log_initial_task_delay_ms
        high_watermarks_ms = config.replica_high_watermark_checkpoint_interval_ms
        recovery_points_ms = config.log_flush_offset_checkpoint_interval_ms
        start_offsets_ms = config.log_flush_start_offset_checkpoint_interval_ms
        retention_ms = config.log_retention_check_interval_ms
        return (
            _Chore(high_watermarks_ms, high_watermarks_ms, self.write_high_watermarks),
            _Chore(recovery_points_ms, min(delay, recovery_points_ms), self.write_recovery_points),
            _Chore(start_offsets_ms, min(delay, start_offsets_ms), self.write_start_offsets),
            _Chore(_FLUSH_CHECK_MS, _FLUSH_CHECK_MS, self.flush_aged),
            _Chore(retention_ms, min(delay, retention_ms), self.apply_retention),
            _Chore(_PRODUCER_EXPIRY_MS, _PRODUCER_EXPIRY_MS, self.expire_producers),
        )

    async def _repeat(self, chore: _Chore) -> None:
        await asyncio.sleep(chore.first_after_ms / 1000)
        while True:
            await chore.run()
            await asyncio.sleep(chore.every_ms / 1000)

    # ---------------------------------------------------------------- checkpoints

    async def write_checkpoints(self) -> None:
        """All of them, as at a clean stop."""
        await self.write_high_watermarks()
        await self.write_recovery_points()
        await self.write_start_offsets()

    async def write_high_watermarks(self) -> None:
        await self._checkpoint(
            "high watermarks", lambda partition: partition.high_watermark, LogDirectory.write_high_watermarks
        )

    async def write_recovery_points(self) -> None:
        await self._checkpoint(
            "recovery points", lambda partition: partition.log.recovery_point, LogDirectory.write_recovery_points
        )

    async def write_start_offsets(self) -> None:
        """All that moved before this call; those who ask while the files are being written share the next round."""
        await self._checkpoint(
            "start offsets", lambda partition: partition.log.start_offset, LogDirectory.write_start_offsets
        )

    async def _checkpoint(
        self, name: str, offset: Callable[[Partition], int], write: Callable[[LogDirectory, Offsets], None]
    ) -> None:
        # A thread is not stopped by whoever gives up waiting for it, so the lock must be held until it is done.
        await asyncio.shield(self._write_checkpoint(name, offset, write))

    async def _write_checkpoint(
        self, name: str, offset: Callable[[Partition], int], write: Callable[[LogDirectory, Offsets], None]
    ) -> None:
        # One after the other: two threads must not write the same file, nor an older state last.
        async with self._writing[name]:
            by_directory: defaultdict[LogDirectory, Offsets] = defaultdict(dict)
            for partition in self._replicas:
                by_directory[self._replicas.home_of(partition)][partition.key] = offset(partition)
            for directory, offsets in by_directory.items():
                if self._written.get((directory, name)) == offsets:
                    continue
                try:
                    await self._disk.run(write, directory, offsets)
                except OSError as problem:
                    self._replicas.storage_failed(directory, problem)
                else:
                    self._written[directory, name] = offsets

    # ---------------------------------------------------------------- logs

    async def flush_aged(self) -> None:
        """`flush.ms`: what has been in memory for that long goes to the disk."""
        now_ms = self._now_ms()
        for partition in self._replicas.of_topics(lambda config: config.flush_ms < MAX_LONG):
            partition.flush_if_older(now_ms)

    async def apply_retention(self) -> None:
        for partition in self._replicas:
            try:
                self._replicas.delete_later(partition, partition.apply_retention(self._now_ms()))
            except OSError as problem:
                self._replicas.storage_failed(self._replicas.home_of(partition), problem)
            # Thousands of partitions must not hold up the requests in between.
            await asyncio.sleep(0)

    async def expire_producers(self) -> None:
        now_ms = self._now_ms()
        for partition in self._replicas:
            partition.log.producers.remove_expired(now_ms)
            await asyncio.sleep(0)


def _report(done: asyncio.Task[None], on_fatal: Callable[[BaseException], None]) -> None:
    if not done.cancelled() and (error := done.exception()) is not None:
        on_fatal(error)
