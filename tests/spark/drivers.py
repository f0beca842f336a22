"""A Spark driver in miniature: it calls a stream writer as Spark does, has a checkpoint, and can die at any step."""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from pyspark.sql.types import StringType, StructField, StructType

from ottla.spark import internals
from ottla.spark.internals import TaskPlace
from ottla.spark.option_words import OptionWords
from ottla.spark.sink import staging
from ottla.spark.sink.options import parse_sink_options
from ottla.spark.sink.stream import StreamWriter
from tests.spark.topics import Topic

SCHEMA = StructType([StructField("value", StringType())])
STEPS = ("before", "in a task", "staged", "decided", "noted")
"""Where a driver can die: before anything; amid the rows of a task; before the commit; after it; after noting it."""


class Died(BaseException):
    """What ends a process, as far as these tests can: nothing that catches failures catches it."""


class Driver:
    """Batches of values, one file of offsets each; a new driver on the old checkpoint goes on."""

    def __init__(self, topic: Topic, checkpoint: Path, patched: pytest.MonkeyPatch, query: str, **options: str) -> None:
        self.checkpoint = checkpoint
        self._topic, self._patched, self._query = topic, patched, query
        self._options = options
        for name in ("offsets", "commits"):
            (checkpoint / name).mkdir(parents=True, exist_ok=True)

    def run(self, batches: Sequence[Sequence[str]], random: Random, die_at: Callable[[int, str], bool]) -> None:
        for number, values in enumerate(batches):
            if not (self.checkpoint / "commits" / str(number)).exists():
                self.run_batch(number, values, random, die_at)

    def run_batch(
        self, number: int, values: Sequence[str], random: Random, die_at: Callable[[int, str], bool] = lambda *_: False
    ) -> None:
        self.plan(number, {"t": {"0": 1000 * number + len(values)}})
        _die_if(die_at(number, "before"))
        writer = self.writer()
        messages = [
            self.task(writer, number, TaskPlace(index, 0), share, die_at(number, "in a task"))
            for index, share in enumerate(_shares(values, random))
        ]
        _die_if(die_at(number, "staged"))
        writer.commit(messages, number)
        _die_if(die_at(number, "decided"))
        (self.checkpoint / "commits" / str(number)).touch()
        _die_if(die_at(number, "noted"))

    def plan(self, number: int, offsets: object) -> None:
        plan = self.checkpoint / "offsets" / str(number)
        if not plan.exists():
            plan.write_text(f"v1\n{{}}\n{json.dumps(offsets)}")

    def writer(self) -> StreamWriter:
        options = parse_sink_options(OptionWords({**self._topic.sink, **self._options}), SCHEMA)
        return StreamWriter(options, str(self.checkpoint))

    def task(
        self, writer: StreamWriter, number: int, place: TaskPlace, values: Sequence[str], is_dying: bool = False
    ) -> object:
        with self._patched.context() as patched:
            patched.setattr(internals, "query_and_batch_of_task", lambda: (self._query, number))
            patched.setattr(internals, "task_place", lambda: place)
            if is_dying:
                patched.setattr(staging, "_leave", _leave_nothing_behind)
            return writer.write(_rows(values, is_dying))


async def _leave_nothing_behind(*_: object) -> None:
    """A process that is killed takes back nothing."""


def _rows(values: Sequence[str], is_dying: bool) -> Iterator[pa.RecordBatch]:
    for value in values:
        yield pa.RecordBatch.from_pydict({"value": [value]}, schema=pa.schema([("value", pa.string())]))
        _die_if(is_dying)


def _shares(values: Sequence[str], random: Random) -> list[list[str]]:
    """Tasks are not cut alike twice."""
    shares: list[list[str]] = [[] for _ in range(random.randint(1, 3))]
    for value in values:
        random.choice(shares).append(value)
    return shares


def _die_if(is_so: bool) -> None:
    if is_so:
        raise Died
