"""Where each leader epoch of a partition begins, so that two replicas learn where they part (KIP-101, 279, 320)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

from ottla.base.types import NO_EPOCH, Epoch, Offset

UNDEFINED_OFFSET = Offset(-1)


class EpochEntry(NamedTuple):
    epoch: Epoch
    start_offset: Offset


class EpochEnd(NamedTuple):
    """The largest known epoch up to the one asked for, and where it ends; both -1 when nothing is known."""

    epoch: Epoch
    end_offset: Offset


UNDEFINED = EpochEnd(NO_EPOCH, UNDEFINED_OFFSET)


class EpochCache:
    """Entries whose epochs and start offsets both rise."""

    __slots__ = ("_epochs", "_starts", "latest")

    def __init__(self, entries: Iterable[EpochEntry] = ()) -> None:
        self._epochs: list[Epoch] = []
        self._starts: list[Offset] = []
        self.latest = NO_EPOCH
        """The highest epoch, or -1."""
        for epoch, start in entries:
            self.assign(epoch, start)

    @property
    def entries(self) -> list[EpochEntry]:
        return [EpochEntry(*pair) for pair in zip(self._epochs, self._starts, strict=True)]

    def assign(self, epoch: Epoch, start_offset: Offset) -> bool:
        """Let `epoch` begin at `start_offset`; what contradicts the newcomer goes. Says whether anything changed."""
        if epoch < 0 or start_offset < 0:
            raise ValueError(f"epoch {epoch} cannot start at {start_offset}")
        epochs, starts = self._epochs, self._starts
        if epochs and epochs[-1] == epoch and starts[-1] <= start_offset:
            return False
        while epochs and (epochs[-1] >= epoch or starts[-1] >= start_offset):
            epochs.pop()
            starts.pop()
        epochs.append(epoch)
        starts.append(start_offset)
        self.latest = epoch
        return True

    def end_offset_for(self, epoch: Epoch, log_end: Offset) -> EpochEnd:
        """Where the log parts from one that has `epoch` last: the start of the next higher epoch (KIP-101, KIP-279)."""
        if epoch < 0 or not self._epochs or epoch > self._epochs[-1]:
            return UNDEFINED
        if epoch == self._epochs[-1]:
            return EpochEnd(epoch, log_end)
        higher = bisect_right(self._epochs, epoch)
        floor = self._epochs[higher - 1] if higher else epoch
        return EpochEnd(floor, self._starts[higher])

    def epoch_at(self, offset: Offset) -> Epoch:
        """The epoch that `offset` was (or will be) written in, or -1."""
        above = bisect_right(self._starts, offset)
        return self._epochs[above - 1] if above else NO_EPOCH

    def truncate_from(self, end_offset: Offset) -> bool:
        """Forget epochs that begin at `end_offset` or later: the log ends there now."""
        size = len(self._epochs)
        while self._starts and self._starts[-1] >= end_offset:
            self._epochs.pop()
            self._starts.pop()
        self.latest = self._epochs[-1] if self._epochs else NO_EPOCH
        return len(self._epochs) != size

    def truncate_to_start(self, start_offset: Offset) -> bool:
        """Forget epochs that end before `start_offset`; the one it lies in begins there now."""
        above = bisect_right(self._starts, start_offset)
        if not above or (above == 1 and self._starts[0] == start_offset):
            return False
        del self._epochs[: above - 1]
        del self._starts[: above - 1]
        self._starts[0] = start_offset
        return True

    def clear(self) -> None:
        self._epochs.clear()
        self._starts.clear()
        self.latest = NO_EPOCH
