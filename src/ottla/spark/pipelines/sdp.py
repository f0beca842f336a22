"""Files written for Spark's Declarative Pipelines, taken as they are: `from pyspark import pipelines as dp`."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.spark.pipelines.decorators import place_of
from ottla.spark.pipelines.definitions import Definitions, Fault, Faulty, Flow, Place, Target, View

if TYPE_CHECKING:
    from pyspark.pipelines.source_code_location import SourceCodeLocation


@contextmanager
def collecting_from_spark(definitions: Definitions, directory: Path) -> Iterator[None]:
    """Spark's decorators register with whoever says so; while this lasts it is us."""
    from pyspark.pipelines.flow import Flow as SparkFlow
    from pyspark.pipelines.graph_element_registry import GraphElementRegistry, graph_element_registration_context
    from pyspark.pipelines.output import MaterializedView, Output, Sink, Table, TemporaryView

    views: dict[str, Place] = {}

    class Registry(GraphElementRegistry):
        def register_output(self, output: Output) -> None:
            place = _place(output.source_code_location, directory)
            match output:
                case MaterializedView():
                    raise Faulty(
                        Fault(place, f"{output.name}: a materialized view is made anew by every run; "
                              "here rows only come, so make it a table that a stream feeds")
                    )  # fmt: skip
                case TemporaryView():
                    views[output.name] = place
                case Sink():
                    definitions.add(Target(output.name, place, output.format.lower(), _texts(output.options)))
                case Table():
                    options = _texts(output.table_properties)
                    if output.partition_cols:
                        options["partition.by"] = ",".join(output.partition_cols)
                    definitions.add(Target(output.name, place, (output.format or "").lower(), options))

        def register_flow(self, flow: SparkFlow) -> None:
            place = _place(flow.source_code_location, directory)
            if flow.target in views:
                definitions.add(View(flow.target, views[flow.target], flow.func))
            else:
                definitions.add(Flow(flow.name, place, flow.target, flow.func))

        def register_auto_cdc_flow(self, flow: Any) -> None:
            place = _place(flow.source_code_location, directory)
            raise Faulty(Fault(place, "Auto CDC needs a table that can merge, and none of those served here can"))

        def register_sql(self, sql_text: str, file_path: "os.PathLike[str]") -> None:
            raise AssertionError("SQL files are read by our own parser")

    with graph_element_registration_context(Registry()):
        yield


def _place(location: "SourceCodeLocation", directory: Path) -> Place:
    return place_of(location.filename, location.line_number or 0, directory)


def _texts(options: Any) -> dict[str, str]:
    return {str(name).lower(): str(value) for name, value in dict(options).items()}
