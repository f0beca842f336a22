"""The words of a pipeline in Python, close to Spark's Declarative Pipelines: a file moves over by its import line.

Nothing runs here. While a project is loaded, each word adds to its definitions; elsewhere it is refused.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.spark.pipelines.definitions import Definitions, Flow, Options, Place, Source, SqlText, Target, View
from ottla.spark.pipelines.sql import TOPIC_FORMAT, topic_target

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

QueryFunction = Callable[[], "DataFrame"]
_collected: ContextVar[tuple[Definitions, Path] | None] = ContextVar("collected", default=None)


@contextmanager
def collecting(definitions: Definitions, directory: Path) -> Iterator[None]:
    """What is defined inside goes to these definitions; files are named as seen from the directory."""
    token = _collected.set((definitions, directory))
    try:
        yield
    finally:
        _collected.reset(token)


def create_stream(name: str, *, topic: str, columns: str | None = None, **options: object) -> None:
    """A topic under a name: `create_stream("orders", topic="shop.orders", format="json", columns="id bigint")`.

    Options are those of CREATE STREAM; a dot is written as an underscore, or all are given as `**{"key.format": …}`.
    """
    _add_source(name, _caller(), topic, columns, options, is_table=False)


def create_topic_table(name: str, *, topic: str, columns: str | None = None, **options: object) -> None:
    """The last value of each key of a topic."""
    _add_source(name, _caller(), topic, columns, options, is_table=True)


def stream(
    *, topic: str, name: str | None = None, columns: str | None = None, **options: object
) -> Callable[[Callable[["DataFrame"], "DataFrame"]], None]:
    """A topic under the function's name; the function gets the decoded rows and may refine them."""
    place = _caller()

    def decorate(function: Callable[["DataFrame"], "DataFrame"]) -> None:
        shown = name or function.__name__
        rows = f"{shown}__rows"
        _add_source(rows, place, topic, columns, options, is_table=False)

        def query() -> "DataFrame":
            from pyspark.sql import SparkSession

            return function(SparkSession.active().table(rows))

        _definitions().add(View(shown, place, query))

    return decorate


def temporary_view(
    query_function: QueryFunction | None = None,
    *,
    name: str | None = None,
    comment: str | None = None,
    spark_conf: Mapping[str, str] | None = None,
) -> Any:
    """A query under a name, for other queries to read."""
    place = _caller()

    def decorate(function: QueryFunction) -> None:
        _definitions().add(View(name or function.__name__, place, function))

    return decorate if query_function is None else decorate(query_function)


def table(
    query_function: QueryFunction | None = None,
    *,
    name: str | None = None,
    format: str | None = None,
    table_properties: Mapping[str, str] | None = None,
    partition_cols: list[str] | None = None,
    comment: str | None = None,
    spark_conf: Mapping[str, str] | None = None,
    schema: object = None,
    cluster_by: list[str] | None = None,
    **options: object,
) -> Any:
    """A lake table and the query that feeds it."""
    place = _caller()

    def decorate(function: QueryFunction) -> None:
        shown = name or function.__name__
        target = _table_options(table_properties, partition_cols, options)
        _definitions().add(Target(shown, place, (format or "").lower(), target))
        _definitions().add(Flow(shown, place, shown, function))

    return decorate if query_function is None else decorate(query_function)


def create_streaming_table(
    name: str,
    *,
    format: str | None = None,
    table_properties: Mapping[str, str] | None = None,
    partition_cols: list[str] | None = None,
    comment: str | None = None,
    spark_conf: Mapping[str, str] | None = None,
    schema: object = None,
    cluster_by: list[str] | None = None,
    **options: object,
) -> None:
    """A lake table that flows append to."""
    target = _table_options(table_properties, partition_cols, options)
    _definitions().add(Target(name, _caller(), (format or "").lower(), target))


def create_sink(name: str, format: str, options: Mapping[str, object] | None = None) -> None:
    """A place where rows go: `create_sink("big", "ottla", {"topic": "big"})`, or delta, iceberg, parquet, console …"""
    _definitions().add(Target(name, _caller(), format.lower(), _texts(options or {})))


def append_flow(
    *,
    target: str,
    name: str | None = None,
    spark_conf: Mapping[str, str] | None = None,
    **options: object,
) -> Callable[[QueryFunction], None]:
    """A query whose rows go to a sink, a table, or a topic: `append_flow(target="topic:big", format="json")`."""
    place = _caller()

    def decorate(function: QueryFunction) -> None:
        _add_topic(target, place)
        _definitions().add(Flow(name or function.__name__, place, target, function, _keywords(options)))

    return decorate


def _add_topic(target: str, place: Place) -> None:
    prefix = topic_target("")
    if target.startswith(prefix) and target not in _definitions().targets:
        _definitions().add(Target(target, place, TOPIC_FORMAT, {"topic": target.removeprefix(prefix)}))


def _add_source(
    name: str, place: Place, topic: str, columns: str | None, options: Mapping[str, object], *, is_table: bool
) -> None:
    text = None if columns is None else SqlText(columns, place)
    _definitions().add(Source(name, place, topic, _keywords(options), text, is_table))


def _table_options(
    properties: Mapping[str, object] | None, partition_columns: list[str] | None, options: Mapping[str, object]
) -> Options:
    given = {**_texts(properties or {}), **_keywords(options)}
    if partition_columns:
        given["partition.by"] = ",".join(partition_columns)
    return given


def _keywords(options: Mapping[str, object]) -> dict[str, str]:
    """A dot cannot be in a Python name, so an underscore stands for it."""
    return {name.replace("_", "."): text for name, text in _texts(options).items()}


def _texts(options: Mapping[str, object]) -> dict[str, str]:
    """As in SQL: names in small letters, values as texts."""
    return {
        name.lower(): str(value).lower() if isinstance(value, bool) else str(value) for name, value in options.items()
    }


def _definitions() -> Definitions:
    return _now()[0]


def _now() -> tuple[Definitions, Path]:
    collected = _collected.get()
    if collected is None:
        raise RuntimeError("pipelines are defined in the files of a project and run by `ottla pipeline run`")
    return collected


def _caller() -> Place:
    """The line of the file that uses the word."""
    frame = sys._getframe(2)
    return place_of(frame.f_code.co_filename, frame.f_lineno, _now()[1])


def place_of(file: str, line: int, directory: Path) -> Place:
    path = Path(file)
    return Place(str(path.relative_to(directory)) if path.is_relative_to(directory) else file, line)
