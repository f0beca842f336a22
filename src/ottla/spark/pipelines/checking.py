"""`check`: plans every flow over empty topics and says what is wrong, without a broker."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.spark.pipelines.active import activate
from ottla.spark.pipelines.definitions import Fault, Faulty
from ottla.spark.pipelines.loading import read_files
from ottla.spark.pipelines.plans import PlannedFlow, Plans
from ottla.spark.pipelines.project import FlowSettings, read_project
from ottla.spark.pipelines.topics import EmptyTopics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ottla.spark.pipelines.project import Project

StartSession = Callable[["Project"], "SparkSession"]


@dataclass(slots=True)
class Findings:
    """What a check found, as plain values."""

    pipeline: str = ""
    flows: list[dict[str, Any]] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)


def check(place: Path, start: StartSession, override: FlowSettings | None = None) -> Findings:
    """`start` is asked for a session only when the files can be read."""
    findings = Findings()
    try:
        project = read_project(place)
        findings.pipeline = project.name
        files = read_files(project)
        spark = start(project)
        activate(spark)
        definitions = files.load()
        with tempfile.TemporaryDirectory(prefix="ottla-check-") as directory:
            topics = EmptyTopics(spark, Path(directory))
            plans = Plans(spark, project, definitions, topics, override or FlowSettings())
            planned = plans.flows()
        findings.flows = [described(one) for one in planned]
        findings.faults = plans.faults
    except Faulty as faulty:
        findings.faults += faulty.faults
    findings.faults.sort(key=lambda fault: (fault.place.file, fault.place.line, fault.place.column))
    return findings


def described(planned: PlannedFlow) -> dict[str, Any]:
    return {
        "name": planned.name,
        "place": str(planned.flow.place),
        "reads": list(planned.sources),
        "writes": planned.target.name,
        "format": planned.target.format,
        "mode": str(planned.settings.mode),
        "output": str(planned.settings.output),
        "dead_letters": list(planned.dead_letters),
        "not_for_tail": list(planned.not_for_tail),
    }
