"""A stream that begins with a table: its files in the order they were written, and then the topic from the seam on.

Offsets say which version of the table is read and how many of its files have been, beside the seam, from which the log
is read afterwards: `{"orders": {"0": 42}, "@archive": {"version": "7", "files": 3}}`. The note goes when the table is
read; from then on this is any stream.
"""

from collections.abc import Sequence
from typing import NamedTuple

from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxBytes, ReadMaxRows

from ottla.spark import connections
from ottla.spark.lake.archives import Archive, ArchivedFile
from ottla.spark.source.archived import file_tasks, opened, seam_of
from ottla.spark.source.batch import cut_at, topics_of
from ottla.spark.source.options import SourceOptions
from ottla.spark.source.progress import ARCHIVE, Json, Progress
from ottla.spark.source.stream import StreamReader


class FilesRead(NamedTuple):
    version: str
    files: int

    @classmethod
    def of(cls, offsets: Json) -> "FilesRead | None":
        found = offsets.get(ARCHIVE)
        return None if found is None else cls(**found)


class ArchivedStreamReader(StreamReader):
    def __init__(self, options: SourceOptions) -> None:
        super().__init__(options)
        self._opened: Archive | None = None
        """Only where offsets are: what travels to tasks has none."""

    def initialOffset(self) -> Json:
        topics = topics_of(self._options)
        archive = self._archive(None)
        places = connections.run(topics.partitions())
        seam = connections.run(seam_of(archive, topics, places, self._options.fail_on_data_loss))
        if self._target is not None:  # else what is archived meanwhile would seem to be lost
            self.prepareForTriggerAvailableNow()
        offsets = Progress(seam, seam, self._group).as_json()
        return {**offsets, ARCHIVE: FilesRead(archive.version, 0)._asdict()} if archive.files else offsets

    def latestOffset(self, start: Json, limit: ReadLimit) -> Json:
        before = FilesRead.of(start)
        if before is None:
            return super().latestOffset(start, limit)
        waiting = self._archive(before.version).files[before.files :]
        if waiting:
            count = len(waiting) if self._is_once(limit) else _as_many_as(waiting, limit)
            return {**start, ARCHIVE: before._replace(files=before.files + count)._asdict()}
        log = {name: value for name, value in start.items() if name != ARCHIVE}
        after = super().latestOffset(log, limit)
        return start if after == log else after

    def partitions(self, start: Json, end: Json) -> Sequence[InputPartition]:
        before, after = FilesRead.of(start), FilesRead.of(end)
        if after is None:
            return super().partitions(start, end)
        archive = self._archive(after.version)
        # When the first batch is repeated, `start` is what a new query would begin with by now.
        first = before.files if before is not None and before.version == after.version else 0
        cut = cut_at(Progress.from_json(end).ends, self._options)
        return file_tasks(archive, archive.files[first : after.files], cut, self._options.splitting)

    def _archive(self, version: str | None) -> Archive:
        if self._opened is None or self._opened.version != version:
            self._opened = opened(self._options, version)
        assert self._opened is not None
        return self._opened


def _as_many_as(files: Sequence[ArchivedFile], limit: ReadLimit) -> int:
    """Whole files within the limit, and one at least."""
    sizes = [file.size if isinstance(limit, ReadMaxBytes) else file.rows for file in files]
    room = limit.max_rows if isinstance(limit, ReadMaxRows) else getattr(limit, "max_bytes", sum(sizes))
    count = 0
    while count < len(sizes) and sizes[count] <= room:
        room -= sizes[count]
        count += 1
    return max(count, 1)
