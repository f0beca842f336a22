"""What a plan is made of, as far as it decides how it may be run. Knows Spark's names for the nodes of a plan."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ottla.spark.pipelines.project import Output
from ottla.spark.pipelines.user_code import words

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# fmt: off
_HARMLESS = frozenset({
    "Project", "Filter", "SubqueryAlias", "View", "Generate", "EventTimeWatermark",
    "UpdateEventTimeWatermarkColumn", "Union", "MapInArrow", "MapInPandas", "PythonMapInArrow",
    "ArrowEvalPython", "BatchEvalPython", "ArrowEvalPythonUDTF", "CollectMetrics", "SerializeFromObject",
    "MapPartitions", "MapElements", "DeserializeToObject", "TypedFilter", "ResolvedHint", "WithCTE",
    "CTERelationDef", "CTERelationRef", "Expand", "LocalRelation", "LogicalRDD", "LogicalRelation",
    "DataSourceV", "Relation", "OneRowRelation",
})
# fmt: on
_MEANINGS = {
    "Aggregate": "it adds up rows (GROUP BY or an aggregate), and sums need the end of a batch",
    "Join": "it joins, and a join needs whole batches",
    "Deduplicate": "it drops duplicates, which needs a state between batches",
    "DeduplicateWithinWatermark": "it drops duplicates, which needs a state between batches",
    "Distinct": "DISTINCT needs a state between batches",
    "Sort": "it sorts, and there is no order before the end",
    "Window": "it ranks rows against each other",
    "GlobalLimit": "LIMIT counts rows over all tasks",
    "LocalLimit": "LIMIT counts rows over all tasks",
    "Repartition": "it moves rows between tasks, which is done at the end of a batch",
    "RepartitionByExpression": "it moves rows between tasks, which is done at the end of a batch",
}
_SOURCES = ("StreamingRelation", "StreamingRelationV2")


@dataclass(frozen=True, slots=True)
class Shape:
    plan: Any
    nodes: tuple[str, ...]
    names: frozenset[str]
    """Of all views that the plan goes through."""
    scans: tuple[int, ...]
    """How often each of its streams is read, in the order in which they come."""

    @classmethod
    def of(cls, frame: "DataFrame") -> "Shape":
        plan = frame._jdf.queryExecution().analyzed()
        nodes, names, scans = [], set(), Counter[str]()
        for node in _below(plan):
            kind = node.nodeName()
            nodes.append(kind)
            if kind == "SubqueryAlias":
                names.add(node.alias())
            elif kind in _SOURCES:
                scans[node.toString()] += 1
        return cls(plan, tuple(nodes), frozenset(names), tuple(scans.values()))

    def against_tail(self) -> Iterator[str]:
        """Why rows cannot go through this plan one by one, each reason once."""
        reasons = {_MEANINGS.get(kind, f"it has a step that keeps a state ({kind})") for kind in self.nodes
                   if kind not in _HARMLESS and kind not in _SOURCES}  # fmt: skip
        yield from sorted(reasons)
        if sum(kind in _SOURCES for kind in self.nodes) > 1:
            yield "it reads several streams, whose ends are one decision"

    def against_output(self, output: Output | None) -> Iterator[str]:
        """What Spark would say when the query starts."""
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession

        jvm: Any = SparkSession.active()._jvm
        modes = jvm.org.apache.spark.sql.streaming.OutputMode
        mode = {Output.UPDATE: modes.Update, Output.COMPLETE: modes.Complete}.get(output or Output.APPEND, modes.Append)
        checker = jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
        try:
            checker.checkForStreaming(self.plan, mode())
        except PySparkException as failure:
            yield words(failure) + _advice(failure)


def _advice(failure: Any) -> str:
    told = str(failure)
    if "without watermark" in told and "aggregation" in told:
        return "; give the stream a watermark and group by a window of its time, or say output = 'update'"
    if "STREAMING_OUTPUT_MODE" in told:
        return "; another output may do: append, update or complete"
    return ""


def _below(node: Any) -> Iterator[Any]:
    yield node
    children = node.children()
    for index in range(children.size()):
        yield from _below(children.apply(index))
