"""Group commit: who asks for an fsync while one runs shares the next."""

import asyncio
import threading

import pytest

from ottla.runtime.disk import Disk
from ottla.runtime.loop import run
from ottla.runtime.watermark import Watermark


class SlowLog:
    def __init__(self) -> None:
        self.flushes = 0
        self.gate = threading.Event()
        self.error: OSError | None = None

    def flush(self) -> None:
        self.gate.wait(10)
        self.flushes += 1
        if self.error is not None:
            raise self.error


def test_requests_during_an_fsync_share_the_next_one() -> None:
    async def main() -> None:
        disk, log = Disk(), SlowLog()
        first = disk.flush(log)
        shared = [disk.flush(log) for _ in range(100)]
        assert not first.done()
        log.gate.set()
        await asyncio.gather(first, *shared)
        assert log.flushes == 2
        disk.close()

    run(main())


def test_a_failed_fsync_fails_all_that_wait_for_it_and_is_not_repeated_for_them() -> None:
    async def main() -> None:
        disk, log = Disk(), SlowLog()
        log.error = OSError(5, "Input/output error")
        log.gate.set()
        with pytest.raises(OSError, match="Input/output"):
            await disk.flush(log)
        assert log.flushes == 1
        disk.close()

    run(main())


def test_a_watermark_wakes_those_whose_offset_is_reached_and_no_others() -> None:
    async def main() -> None:
        mark = Watermark(5)
        assert mark.reached(5) is None
        near, far = mark.reached(6), mark.reached(9)
        assert near is not None
        assert far is not None
        mark.advance(8)
        assert near.done()
        assert not far.done()
        mark.fail(RuntimeError("gone"))
        with pytest.raises(RuntimeError, match="gone"):
            await far

    run(main())
