"""What a task does: write its rows into a transaction and leave that open."""

from collections.abc import Iterable, Iterator
from contextlib import suppress

import pyarrow as pa

from ottla.client.cluster import Cluster
from ottla.client.failures import ClientFailure
from ottla.client.transactions import TransactionalProducer
from ottla.spark import connections
from ottla.spark.sink.exactly_once import Member
from ottla.spark.sink.gathering import Gathering
from ottla.spark.sink.options import SinkOptions


def stage(
    options: SinkOptions, cluster: Cluster, transactional_id: str, rows: Iterable[pa.RecordBatch]
) -> tuple[Member | None, int]:
    """The open transaction with these rows in it, all of them stored; none if there are no rows."""
    waiting = _with_rows(rows)
    first = next(waiting, None)
    if first is None:
        return None, 0
    producer = TransactionalProducer(cluster, transactional_id, options.timeout_ms)
    connections.run(producer.init())
    is_whole = False
    try:
        from ottla.spark.sink.rows import RowWriter  # brings numba, which only tasks need

        writer = RowWriter(options, cluster, producer)
        writer.write(first)
        with Gathering(writer) as together:
            for batch in waiting:
                together.write(batch)
        connections.run(producer.flush())
        is_whole = True
    finally:
        connections.run(_leave(producer, is_whole))
    return Member(producer.identity, producer.joins_by_itself), writer.row_count


def drain(rows: Iterable[pa.RecordBatch]) -> None:
    """Spark expects that rows are taken, even if nobody needs them."""
    for _ in rows:
        pass


def _with_rows(rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return (batch for batch in rows if batch.num_rows)


async def _leave(producer: TransactionalProducer, is_whole: bool) -> None:
    """A task that fails takes back what it wrote, so that no reader has to wait for the timeout."""
    if not is_whole:
        with suppress(ClientFailure):  # what made the task fail is what is told
            await producer.abort()
    await producer.close()
