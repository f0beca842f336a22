"""The shape of a log without its contents: where it begins and ends, and which epoch wrote which stretch."""

from bisect import bisect_right
from collections.abc import Iterable

from ottla.core.quorum.messages import SnapshotId

EMPTY = SnapshotId(0, 0)


class LogShape:
    """Epochs and offsets only ever grow along the log; everything below `flushed_end` is on disk."""

    def __init__(self, start: SnapshotId = EMPTY, epochs: Iterable[tuple[int, int]] = (), end: int = 0) -> None:
        self.start = start
        """What the log begins with: the snapshot below it, or nothing at offset 0."""
        self._epochs = [epoch for epoch, _ in epochs]
        self._starts = [offset for _, offset in epochs]
        self.end_offset = max(end, start.end_offset)
        self.flushed_end = self.end_offset
        self.generation = 0
        """Counts truncations: an fsync that began before one says nothing about what was written after it."""

    @property
    def last_epoch(self) -> int:
        return self._epochs[-1] if self._epochs else self.start.epoch

    @property
    def epochs(self) -> list[tuple[int, int]]:
        return list(zip(self._epochs, self._starts, strict=True))

    def append(self, epoch: int, count: int) -> int:
        """The base offset of `count` new records."""
        assert epoch >= self.last_epoch, "epochs grow along the log"
        if not self._epochs or self._epochs[-1] < epoch:
            self._epochs.append(epoch)
            self._starts.append(self.end_offset)
        base = self.end_offset
        self.end_offset += count
        return base

    def end_of(self, epoch: int) -> tuple[int, int]:
        """The last epoch here that is not above `epoch`, and where it ends."""
        at = bisect_right(self._epochs, epoch)
        end = self._starts[at] if at < len(self._starts) else self.end_offset
        if at == 0:
            return self.start.epoch, end
        return self._epochs[at - 1], end

    def holds(self, epoch: int, offset: int) -> bool:
        """Whether a log that ends at `offset` with `epoch` is a beginning of this one."""
        return self.start.end_offset <= offset <= self.end_offset and self.epoch_at(offset) == epoch

    def epoch_at(self, offset: int) -> int:
        """The epoch of the record in front of `offset`."""
        at = bisect_right(self._starts, offset - 1)
        return self._epochs[at - 1] if at else self.start.epoch

    def truncate(self, offset: int) -> None:
        assert self.start.end_offset <= offset < self.end_offset
        while self._starts and self._starts[-1] >= offset:
            self._starts.pop()
            self._epochs.pop()
        self.end_offset = offset
        self.flushed_end = min(self.flushed_end, offset)
        self.generation += 1

    def begin_at(self, snapshot: SnapshotId) -> None:
        """Nothing below the snapshot's end is kept any more."""
        assert self.start.end_offset <= snapshot.end_offset <= self.end_offset
        kept = bisect_right(self._starts, snapshot.end_offset)
        if kept:
            self._starts[:kept] = [snapshot.end_offset]
            self._epochs[: kept - 1] = []
            if snapshot.end_offset == self.end_offset:
                del self._starts[0], self._epochs[0]
        self.start = snapshot

    def restart_at(self, snapshot: SnapshotId) -> None:
        """The log is thrown away; a snapshot from elsewhere takes its place."""
        self.start = snapshot
        self._epochs.clear()
        self._starts.clear()
        self.end_offset = self.flushed_end = snapshot.end_offset
        self.generation += 1
