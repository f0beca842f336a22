"""A topic and the table that archives it, as one: the seam between them, and the rows of the table's files.

The *seam* is an offset for each partition. Rows below it come from the table, records from it on from the log; what the
table has at or above it, because it was written further meanwhile or by somebody else, is left out. So every row is
there once, however far the two overlap; and where the log begins behind the seam, records are missing, which is told.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql.datasource import InputPartition

from ottla.base.types import TopicName, TopicPartition
from ottla.spark.arrow.schema import row_schema
from ottla.spark.lake.archives import Archive, ArchivedFile, ArchiveOptions, FileReader, open_archive
from ottla.spark.option_words import BadOption
from ottla.spark.source.filters import Wanted
from ottla.spark.source.options import SourceOptions, Splitting
from ottla.spark.source.planning import OFFSET_MAX, Ends
from ottla.spark.source.topics import DataLoss, Topics

_PLACE = ("topic", "partition", "offset")


def opened(options: SourceOptions, version: str | None = None) -> Archive | None:
    """The archive of this read; None if it has none."""
    if options.archive is None:
        return None
    archive = open_archive(options.archive, version)
    _check_columns(archive, options.archive, options.columns)
    return archive


def _check_columns(archive: Archive, options: ArchiveOptions, columns: Sequence[str]) -> None:
    missing = [name for name in dict.fromkeys((*_PLACE, *columns)) if name not in archive.columns]
    if missing:
        raise BadOption(
            f"the archive {options.name} has no column '{missing[0]}'. An archive keeps rows as they are read, all "
            f"columns of them{', with includeHeaders' if missing == ['headers'] else ''}; with the option 'columns' "
            "others can be left out"
        )


async def seam_of(archive: Archive, topics: Topics, places: Sequence[TopicPartition], is_loss_refused: bool) -> Ends:
    """Where the log takes over. The archive has been opened before, so whatever it lacks is looked for in the log."""
    starts = await topics.starts(places)
    seam: dict[TopicPartition, int] = {}
    for topic, some in groupby(sorted(places), key=lambda place: place.topic):
        own = list(some)
        known = {place: end for place in own if (end := archive.end(place)) is not None}
        if known := known or highest_ends(archive, topic):
            seam |= {place: known.get(place, 0) for place in own}
        else:  # nothing of it is archived
            seam |= {place: starts[place] for place in own}
    for place in places:
        if starts[place] > seam[place] and is_loss_refused:
            raise DataLoss(
                f"{place} is archived up to offset {seam[place]}, and its log begins at offset {starts[place]}"
            )
    return seam


def highest_ends(archive: Archive, topic: str) -> dict[TopicPartition, int]:
    """By the rows themselves, where nobody has noted how far the table is: behind the last row of each partition.

    The newest files are looked at first, and those that can hold nothing higher not at all.
    """
    highest: dict[int, int] = {}
    for file in reversed(archive.files):
        if not _may_be_higher(file, highest):
            continue
        for batch in archive.reader.batches(file, _PLACE):
            rows = pa.table([batch.column(name) for name in _PLACE], names=_PLACE)
            own = rows.filter(pa.compute.equal(rows["topic"].cast(pa.string()), topic))
            last = own.group_by("partition").aggregate([("offset", "max")])
            for partition, offset in zip(last["partition"].to_pylist(), last["offset_max"].to_pylist(), strict=True):
                highest[partition] = max(offset, highest.get(partition, -1))
    return {TopicPartition(TopicName(topic), partition): offset + 1 for partition, offset in highest.items()}


def _may_be_higher(file: ArchivedFile, highest: Mapping[int, int]) -> bool:
    if file.offsets is None or file.partitions is None:
        return True
    low, high = file.partitions
    return any(highest.get(partition, -1) < file.offsets.high for partition in range(low, high + 1))


@dataclass(frozen=True)
class Cut:
    """Which rows of the table count."""

    seam: Ends
    has_others: bool
    """Whether rows of partitions count that the log does not have any more."""
    wanted: Wanted = field(default_factory=Wanted)

    def files(self, archive: Archive) -> list[ArchivedFile]:
        """Those that may hold such rows."""
        return [file for file in archive.files if self._may_be_in(file)]

    def _may_be_in(self, file: ArchivedFile) -> bool:
        (low, high), partitions = self.wanted.offsets, self.wanted.partitions
        if file.offsets is not None and not (file.offsets.low < high and file.offsets.high >= low):
            return False
        if file.partitions is None or partitions is None:
            return True
        return any(file.partitions.low <= partition <= file.partitions.high for partition in partitions)

    def limits(self) -> dict[str, NDArray[np.int64]]:
        """For each topic its seam by partition, and at the end what holds for all further ones."""
        further = OFFSET_MAX if self.has_others else 0
        found = {}
        for topic, some in groupby(sorted(self.seam), key=lambda place: place.topic):
            own = {place.partition: self.seam[place] for place in some if self.wanted.has(place)}
            is_open = self.wanted.partitions is None and (self.wanted.topics is None or topic in self.wanted.topics)
            limits = np.full(max(own, default=-1) + 2, further if is_open else 0, np.int64)
            limits[list(own)] = list(own.values())
            found[str(topic)] = np.minimum(limits, self.wanted.offsets[1])
        return found

    def mask(self, rows: pa.RecordBatch, limits: Mapping[str, NDArray[np.int64]]) -> pa.Array:
        topics = rows.column("topic").cast(pa.string()).dictionary_encode()
        of_row = topics.indices.to_numpy()
        partitions, offsets = rows.column("partition").to_numpy(), rows.column("offset").to_numpy()
        kept = offsets >= self.wanted.offsets[0]
        for index, topic in enumerate(topics.dictionary.to_pylist()):
            is_its = of_row == index
            if topic not in limits:
                kept &= ~is_its
                continue
            own = limits[topic]
            kept &= ~is_its | (offsets < own[np.minimum(partitions, len(own) - 1)])
        return pa.array(kept)


class FilesToRead(InputPartition):
    """What one task reads of the table."""

    def __init__(self, reader: FileReader, files: Sequence[ArchivedFile], cut: Cut) -> None:
        self._reader, self.files, self._cut = reader, files, cut

    def rows(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        asked, schema = tuple(dict.fromkeys((*columns, *_PLACE))), row_schema(columns)
        limits = self._cut.limits()
        for file in self.files:
            for batch in self._reader.batches(file, asked):
                kept = batch.filter(self._cut.mask(batch, limits))
                if kept.num_rows:
                    yield pa.RecordBatch.from_arrays([_cast(kept, field) for field in schema], schema=schema)


def _cast(rows: pa.RecordBatch, field: pa.Field) -> pa.Array:
    """Tables have their own kinds of strings and lists; what they keep is the same."""
    return rows.column(field.name).cast(field.type)


def file_tasks(archive: Archive, files: Sequence[ArchivedFile], cut: Cut, splitting: Splitting) -> list[FilesToRead]:
    """Files in their order, so many to a task as its share of rows allows. A large file is not cut."""
    tasks: list[list[ArchivedFile]] = []
    room = 0
    for file in files:
        if room < file.rows or not tasks:
            tasks.append([])
            room = splitting.rows_per_task
        tasks[-1].append(file)
        room -= file.rows
    return [FilesToRead(archive.reader, task, cut) for task in tasks]
