"""All that this package knows of Spark beyond its documented interfaces, in one place, and checks that it still holds.

Run with PySpark 4.3. A name that has gone is noticed when a batch is written, not by a wrong result.
"""

import gc
import sys
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from pyspark import TaskContext

from ottla.spark.not_ready import NotReady

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

QUERY_ID = "sql.streaming.queryId"
BATCH_ID = "streaming.sql.batchId"
"""Local properties of every job that a streaming query starts: the interface of writers passes neither on."""

_OFFSETS_VERSION = "v1"
_PUSHDOWN_WORKER = "pyspark.sql.worker.data_source_pushdown_filters"
_DAEMON = "pyspark.daemon"
_modules_spared = 0


@dataclass(frozen=True)
class TaskPlace:
    """Which attempt of which task this is."""

    partition: int
    attempt: int


def is_pushing_filters() -> bool:
    """Whether this process is the one that asks a reader about filters.

    Elsewhere a reader must not have `pushFilters`: with the setting off, which is Spark's default, Spark refuses it.
    """
    return _PUSHDOWN_WORKER in sys.modules


def settle_in_worker() -> None:
    """At the beginning of a task: keep Spark's daemon, whose worker this is, from work that helps nobody.

    It collects garbage whenever a task is done, and with PyArrow and numba imported that takes 15 ms of a core, several
    times a batch. What is there when a task begins is there to stay, so it is taken out of the search: again only when
    more has been imported, lest what a task leaves behind be kept for ever.
    """
    global _modules_spared
    main = sys.modules.get("__main__")
    if getattr(getattr(main, "__spec__", None), "name", "") == _DAEMON and len(sys.modules) != _modules_spared:
        _modules_spared = len(sys.modules)
        gc.freeze()
        _leave_quietly(main)


def _leave_quietly(daemon: object) -> None:
    """A worker whose task was stopped finds nobody at the other end of its socket, which is no news to anybody.

    Spark's daemon would print where in its own code that was noticed, at every stop of a query.
    """

    def print_exc() -> None:
        if sys.exc_info()[0] is not BrokenPipeError:
            traceback.print_exc()

    daemon.traceback = SimpleNamespace(print_exc=print_exc, format_exc=traceback.format_exc)  # type: ignore[attr-defined]


def reports_since(query: "StreamingQuery", last: str) -> list[str]:
    """What a query has reported behind `last`, as JSON, the oldest first.

    Spark keeps a hundred reports. `query.recentProgress` fetches and decodes all of them every time, and who looks
    four times a second is busy with nothing else.
    """
    reports = query._jsq.recentProgress()
    found: list[str] = []
    for index in range(len(reports) - 1, -1, -1):
        report = str(reports[index].json())
        if report == last:
            break
        found.append(report)
    return found[::-1]


def task_place() -> TaskPlace:
    context = TaskContext.get()
    if context is None:
        return TaskPlace(0, 0)
    return TaskPlace(context.partitionId(), context.attemptNumber())


def query_and_batch_of_task() -> tuple[str, int]:
    """The streaming query and the number of its batch that this task writes for."""
    context = TaskContext.get()
    query = context.getLocalProperty(QUERY_ID) if context else None
    batch = context.getLocalProperty(BATCH_ID) if context else None
    if not query or batch is None:
        raise NotReady(
            f"this version of Spark does not tell a task its query and batch (properties {QUERY_ID} and {BATCH_ID}), "
            "so batches cannot be told apart and written once. Write with foreachBatch and the options txnAppId and "
            "txnVersion, or with PySpark 4.3"
        )
    return query, int(batch)


def checkpoint_of(options: Mapping[str, str]) -> str | None:
    """Where the query that writes keeps its checkpoint: Spark passes the option on to the writer."""
    return {name.lower(): value for name, value in options.items()}.get("checkpointlocation")


def query_of_batch(frame: "DataFrame") -> str | None:
    """The streaming query in whose `foreachBatch` this frame came; None if nobody tells."""
    context = getattr(frame.sparkSession, "_sc", None)
    return context.getLocalProperty(QUERY_ID) if context else None


def checkpoint_of_batch(frame: "DataFrame", query: str) -> str | None:
    """Where this query keeps its checkpoint.

    The frame's session is a copy that Spark has made for the query, and whose own list of queries is empty; what all
    sessions share knows them.
    """
    session = frame.sparkSession
    name = session._jvm.java.util.UUID.fromString(query)  # type: ignore[union-attr]
    running = session._jsparkSession.sharedState().activeStreamingQueries().get(name)
    return None if running is None else str(running.resolvedCheckpointRoot())


def sources_of_batch(checkpoint: str, batch: int) -> list[str]:
    """The offsets that each source reaches with this batch, as the query wrote them down before it began.

    A file of lines: its version, facts about the query, and then one line of JSON for each source.
    """
    files, root = _place(checkpoint)
    with files.open_input_stream(f"{root.rstrip('/')}/offsets/{batch}") as stream:
        lines = stream.read().decode().splitlines()
    if not lines or lines[0] != _OFFSETS_VERSION:
        raise NotReady(
            f"{checkpoint}/offsets/{batch} is of a format that is not known here ({lines[0] if lines else 'empty'}), "
            "so it cannot be told whether a batch is the same as one that was written before. PySpark 4.3 is known"
        )
    return list(lines[2:])


def is_readable(checkpoint: str) -> bool:
    """Whether checkpoints on this kind of file system can be looked into from Python."""
    try:
        _place(checkpoint)
    except (ValueError, OSError, NotImplementedError):  # ArrowInvalid is a ValueError
        return False
    return True


def _place(checkpoint: str) -> tuple["FileSystem", str]:
    from pyarrow import fs

    parts = urlsplit(checkpoint)
    if parts.scheme in ("", "file"):
        return fs.LocalFileSystem(), unquote(parts.path) if parts.scheme else checkpoint
    files, path = fs.FileSystem.from_uri(checkpoint)
    return files, path
