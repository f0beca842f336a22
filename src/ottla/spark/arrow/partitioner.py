"""Which partition a row goes to: the one it names, else the one its key hashes to, else one for the whole batch.

As Kafka's Java clients do it, so that a key that both write is in one partition.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ottla.base.types import TopicName, TopicPartition
from ottla.spark.arrow import partition_kernels as kernels
from ottla.spark.arrow.columns import bits_of, blobs_of, frozen, no_blobs
from ottla.spark.arrow.encode import Placed, Unwritable


class Partitioner:
    """Knows how many partitions the topics have. Rows that leave the choice go round, by whole Arrow batches."""

    def __init__(self, partition_counts: Mapping[str, int], *, first: int = 0) -> None:
        """`first` is where the round begins; tasks that write together should begin at different places."""
        self._topics = {topic: number for number, topic in enumerate(partition_counts)}
        counts = np.array(list(partition_counts.values()), np.int64)
        self._first_lanes = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        self._turn = first
        self.partitions: Sequence[TopicPartition] = [
            TopicPartition(TopicName(topic), partition)
            for topic, count in partition_counts.items()
            for partition in range(count)
        ]

    def place(self, rows: pa.RecordBatch, topic: str | None = None) -> Placed:
        """The partition of every row; `topic` wins over the column of that name, as in the connector."""
        lanes = np.empty(rows.num_rows, np.int32)
        topics = self._topic_numbers(rows, topic)
        names = rows.schema.names
        keys = blobs_of(rows.column("key")) if "key" in names else no_blobs(rows.num_rows)
        wanted = (
            rows.column("partition").cast(pa.int32()) if "partition" in names else pa.nulls(rows.num_rows, pa.int32())
        )
        numbers = frozen(wanted.fill_null(-1).to_numpy(zero_copy_only=False))
        bad = kernels.place(topics, keys, (numbers, bits_of(wanted)), self._first_lanes, self._turn, lanes)
        self._turn += 1
        if bad >= 0:
            raise Unwritable(self._why_not(rows, topic, bad))
        return Placed(lanes, self.partitions)

    def _topic_numbers(self, rows: pa.RecordBatch, topic: str | None) -> NDArray[np.int32]:
        """Each row's topic, as its number here; -1 for none that is known."""
        if topic is not None:
            return frozen(np.full(rows.num_rows, self._topics.get(topic, -1), np.int32))
        if "topic" not in rows.schema.names:
            raise Unwritable("rows have no topic: there is neither the option nor the column `topic`")
        column = rows.column("topic").cast(pa.string()).dictionary_encode()
        known = np.array([self._topics.get(name, -1) for name in column.dictionary.to_pylist()] + [-1], np.int32)
        return frozen(known[column.indices.fill_null(-1).to_numpy(zero_copy_only=False)])

    def _why_not(self, rows: pa.RecordBatch, topic: str | None, row: int) -> str:
        name = topic if topic is not None else rows.column("topic")[row].as_py()
        if name is None:
            return "a row whose topic is null, and no option `topic`"
        if name not in self._topics:
            return f"there is no topic {name}"
        first, end = self._first_lanes[self._topics[name] :][:2]
        return f"{name} has no partition {rows.column('partition')[row].as_py()}, it has {end - first}"
