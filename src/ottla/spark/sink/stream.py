"""The stream writer: `writeStream.format("ottla")`, each batch once."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from ottla.spark import connections, internals
from ottla.spark.sink import exactly_once
from ottla.spark.sink.deciding import decisions_at, sources_for
from ottla.spark.sink.exactly_once import Batch, BatchKey, Staged
from ottla.spark.sink.options import SinkOptions
from ottla.spark.sink.staging import drain, stage

if TYPE_CHECKING:
    import pyarrow as pa


class StreamWriter(DataSourceStreamArrowWriter):
    """Made anew for every batch, and pickled to its tasks and to the process that commits."""

    def __init__(self, options: SinkOptions, checkpoint: str | None) -> None:
        self._options = options
        self._checkpoint = checkpoint

    def write(self, iterator: Iterator["pa.RecordBatch"]) -> Staged:
        query, number = internals.query_and_batch_of_task()
        return staged_once(self._options, BatchKey(self._options.sink, query, number), iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        staged = staged_in(messages)
        if not staged:
            return  # Spark ran no task, so there was nothing to write
        commit_once(self._options, staged[0].key._replace(number=batchId), staged, self._checkpoint)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Where no task has told of its query, there is nothing to find: timeouts and the next batch clear away."""
        for one in staged_in(messages)[:1]:
            abort_once(self._options, one.key)


def staged_once(options: SinkOptions, key: BatchKey, rows: Iterator["pa.RecordBatch"]) -> Staged:
    """The rows of a task, or nothing if the whole batch is decided. Never less: tasks are not cut alike twice."""
    cluster, place = connections.cluster_at(options.kafka), internals.task_place()
    decisions = decisions_at(cluster, options)
    if connections.run(exactly_once.is_written(decisions, key)):
        drain(rows)
        return Staged(key, place, None)
    member, row_count = stage(options, cluster, key.transactional_id(place), rows)
    return Staged(key, place, member, row_count)


def commit_once(options: SinkOptions, key: BatchKey, staged: Sequence[Staged], checkpoint: str | None) -> None:
    cluster = connections.cluster_at(options.kafka)
    digest, offsets = sources_for(checkpoint, key.number, options.kafka["bootstrap.servers"])
    members = [one.member for one in staged if one.member is not None]
    batch = Batch(key=key, digest=digest, members=members, offsets=offsets)
    connections.run(exactly_once.commit(decisions_at(cluster, options), cluster, batch))


def abort_once(options: SinkOptions, key: BatchKey) -> None:
    cluster = connections.cluster_at(options.kafka)
    connections.run(exactly_once.abort(decisions_at(cluster, options), cluster, key))


def staged_in(messages: Sequence[WriterCommitMessage | None]) -> list[Staged]:
    return [one for one in messages if isinstance(one, Staged)]
