"""Rows of a task into batches of the log, for one transactional producer."""

import time
import zlib
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from ottla.client.cluster import Cluster
from ottla.client.transactions import TransactionalProducer
from ottla.spark import connections
from ottla.spark.arrow.encode import EncodedBatch, RecordEncoder, Unwritable
from ottla.spark.arrow.partitioner import Partitioner
from ottla.spark.sink.options import SinkOptions
from ottla.wire.batch import ProducerStamp


class RowWriter:
    """Encodes and sends; what it has sent counts when somebody commits the producer's transaction."""

    def __init__(self, options: SinkOptions, cluster: Cluster, producer: TransactionalProducer) -> None:
        self.row_count = 0
        self._options = options
        self._cluster = cluster
        self._producer = producer
        _, producer_id, epoch = producer.identity
        self._encoder = RecordEncoder(options.codec, stamp=ProducerStamp(producer_id, epoch, 0, True))
        self._counts: dict[str, int] = {}
        self._partitioner: Partitioner | None = None

    def write(self, rows: pa.RecordBatch) -> None:
        rows = self._named(rows)
        partitioner = self._knowing(self._topics(rows))
        placed = partitioner.place(rows, self._options.topic)
        batches = self._encoder.encode(rows, placed, int(time.time() * 1000))
        connections.run(self._submit(batches))
        self.row_count += rows.num_rows

    def _named(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The columns that are written, by the names that the encoder knows: Spark's have no case."""
        kept = [(name.lower(), rows.column(name)) for name in self._options.columns]
        return pa.RecordBatch.from_arrays([column for _, column in kept], names=[name for name, _ in kept])

    def _topics(self, rows: pa.RecordBatch) -> Sequence[str]:
        if self._options.topic is not None:
            return [self._options.topic]
        found: list[str | None] = pc.unique(rows.column("topic")).to_pylist()
        names = [name for name in found if name is not None]
        if len(names) < len(found):
            raise Unwritable("a row has no topic: its column 'topic' is null, and there is no option 'topic'")
        return names

    def _knowing(self, topics: Sequence[str]) -> Partitioner:
        """Topics are asked about once: partitions that come later are used by the next task."""
        new = [name for name in topics if name not in self._counts]
        if new or self._partitioner is None:
            views = connections.run(self._cluster.topics(new))
            self._counts |= {name: len(view.leaders) for name, view in views.items()}
            # Tasks that write side by side begin at different partitions.
            first = zlib.crc32(self._producer.identity.transactional_id.encode())
            self._partitioner = Partitioner(self._counts, first=first)
        return self._partitioner

    async def _submit(self, batches: Sequence[EncodedBatch]) -> None:
        for batch in batches:
            await self._producer.submit(batch.partition, batch.content)
