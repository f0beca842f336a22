"""The metadata log on a full disk: a change is refused, nothing is half done, and it goes on when there is room."""

import errno
import os
from dataclasses import replace
from pathlib import Path

import pytest

from ottla.base.errors import ErrorCode, Refused
from ottla.core.metadata.asks import NewTopic
from ottla.runtime.controller import Controller
from ottla.storage.files import Bytes, Files, Handle
from tests.unit.runtime.controllers import fail, join, place, run


class FullHandle(Handle):
    __slots__ = ("disk",)

    def __init__(self, handle: Handle, disk: "FullDisk") -> None:
        super().__init__(os.dup(handle.fd))
        self.disk = disk

    def pwrite(self, data: Bytes, position: int) -> int:
        if self.disk.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().pwrite(data, position)


class FullDisk(Files):
    is_full = False

    def open(self, path: str, create: bool = False) -> Handle:
        return FullHandle(super().open(path, create), self)


def test_a_change_that_finds_no_room_is_refused_and_may_be_asked_for_again(tmp_path: Path) -> None:
    disk = FullDisk()
    where = replace(place(tmp_path), files=disk)

    async def main() -> None:
        controller = Controller(where, {}, fail)
        await controller.start()
        await join(controller)
        await controller.create_topics([NewTopic("before", 1, 1)])
        disk.is_full = True
        for _ in range(2):
            with pytest.raises(Refused, match="No space left") as refused:
                await controller.create_topics([NewTopic("late", 1, 1)])
            assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR
        assert set(controller.image.topics_by_name) == {"before"}
        disk.is_full = False
        (created,) = await controller.create_topics([NewTopic("late", 1, 1)])
        assert created.error == ErrorCode.NONE
        await controller.stop()
        again = Controller(where, {}, fail)
        await again.start()
        assert set(again.image.topics_by_name) == {"before", "late"}
        await again.stop()

    run(main())
