"""The places where rows go: which there are, and what each needs to be told."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ottla.spark.pipelines.definitions import Fault, Flow, Target
from ottla.spark.pipelines.project import FlowSettings, Output, advice
from ottla.spark.pipelines.sql import TOPIC_FORMAT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILES = ("parquet", "json", "csv", "orc", "text")
LAKE = ("delta", "iceberg")
SPARKS = ("console", "memory", "noop")
JDBC = "jdbc"
_KNOWN = frozenset({TOPIC_FORMAT, *FILES, *LAKE, *SPARKS, JDBC})
_NEEDS = {
    **dict.fromkeys((*FILES, "delta"), ("path",)),
    "iceberg": ("table",),
    JDBC: ("url", "dbtable"),
}
_APPEND_ONLY = (*FILES, *LAKE, JDBC)


def faults(spark: "SparkSession", flow: Flow, target: Target, settings: FlowSettings) -> Iterator[Fault]:
    """What is missing or impossible, without looking at the place itself."""
    kind = target.format
    if not kind:
        yield Fault(target.place, f"{target.name} needs a format: {', '.join(sorted(_KNOWN))}")
        return
    if kind not in _KNOWN and not _is_known_to_spark(spark, kind):
        yield Fault(target.place, f"{target.name}: there is no format {kind}{advice(kind, _KNOWN)}")
        return
    for name in _NEEDS.get(kind, ()):
        if name not in target.options:
            yield Fault(target.place, f"{target.name}: {kind} needs {name} = '…'")
    if kind in _APPEND_ONLY and settings.output is not Output.APPEND:
        what = f"{flow.name}: {kind} takes rows that stay as they are (output = 'append'), not {settings.output}"
        yield Fault(flow.place, what)


def _is_known_to_spark(spark: "SparkSession", kind: str) -> bool:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    jvm: Any = spark._jvm
    try:
        configuration = spark._jsparkSession.sessionState().conf()
        jvm.org.apache.spark.sql.execution.datasources.DataSource.lookupDataSource(kind, configuration)
    except (PySparkException, Py4JError):
        return False
    return True
