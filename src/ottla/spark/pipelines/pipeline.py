"""A project, from its files to a run."""

import os
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.spark.not_ready import NotReady
from ottla.spark.pipelines.active import activate
from ottla.spark.pipelines.definitions import Faulty
from ottla.spark.pipelines.loading import read_files
from ottla.spark.pipelines.plans import Plans
from ottla.spark.pipelines.project import FlowSettings, Mode, Project, read_project
from ottla.spark.pipelines.running import PipelineRun
from ottla.spark.pipelines.sinks import SparkFlow
from ottla.spark.pipelines.state import StateDirectory
from ottla.spark.pipelines.topics import ClusterTopics
from ottla.spark.session import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What the command line says about a run."""

    bootstrap: str | None = None
    flows: tuple[str, ...] = ()
    """All, if none is named."""
    settings: FlowSettings = field(default_factory=FlowSettings)
    master: str | None = None


def start_session(project: Project, master: str | None = None) -> "SparkSession":
    """A session with the project's settings; workers find modules of the project's directory."""
    path = [str(project.directory), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(path)
    warehouse = {"spark.sql.warehouse.dir": str(project.storage / "warehouse")}
    return session(project.name, master=master, config={**warehouse, **project.configuration})


def open_project(place: Path, bootstrap: str | None) -> Project:
    """The cluster's address comes from the command line, or else from the specification."""
    project = read_project(place)
    project = replace(project, bootstrap=bootstrap or project.bootstrap)
    if not project.bootstrap:
        raise NotReady(f"no brokers are named: `bootstrap: HOST:PORT` in {project.file.name}, or --bootstrap")
    return project


def prepare(
    project: Project,
    wanted: Wanted,
    tell: Callable[[dict[str, Any]], None],
    start: Callable[[Project, str | None], "SparkSession"] = start_session,
) -> PipelineRun:
    """Plan everything. Raises `Faulty` before anything runs."""
    files = read_files(project)
    spark = start(project, wanted.master or _roomy(project, wanted.settings))
    activate(spark)
    plans = Plans(spark, project, files.load(), ClusterTopics(spark, project), wanted.settings)
    planned = plans.flows()
    if plans.faults:
        raise Faulty(*plans.faults)
    unknown = set(wanted.flows) - {one.name for one in planned}
    if unknown:
        names = ", ".join(one.name for one in planned)
        raise NotReady(f"{project.name} has no flow {min(unknown)}; it has {names}")
    state = StateDirectory(project.storage)
    flows = [SparkFlow(one, project, state) for one in planned if not wanted.flows or one.name in wanted.flows]
    return PipelineRun(project.name, flows, state, tell)


def _roomy(project: Project, settings: FlowSettings) -> str | None:
    """On this machine, more slots than cores if there may be flows of the mode tail: each holds one for ever."""
    if "MASTER" in os.environ or "spark.master" in project.configuration:
        return None
    modes = {settings.mode, project.mode, *(given.mode for given in project.flows.values())}
    is_said = any(re.search(r"\btail\b", path.read_text(encoding="utf-8")) for path in project.files())
    return f"local[{(os.cpu_count() or 1) + _TAIL_SLOTS},4]" if Mode.TAIL in modes or is_said else None


_TAIL_SLOTS = 8


def held(project: Project) -> AbstractContextManager[None]:
    """Only one run of a project at a time."""
    return StateDirectory(project.storage).held()
