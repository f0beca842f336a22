"""A project's files become definitions. SQL is parsed, Python is executed; no query of either runs here."""

import re
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType
from typing import Any

from ottla.spark.pipelines import sql
from ottla.spark.pipelines.decorators import collecting
from ottla.spark.pipelines.definitions import Definitions, Fault, Faulty, Place
from ottla.spark.pipelines.project import Project, advice
from ottla.spark.pipelines.sdp import collecting_from_spark
from ottla.spark.pipelines.user_code import UserCode

_USES_SPARKS_WORDS = re.compile(
    r"^\s*(from\s+pyspark\s+import\s+.*\bpipelines\b|(import|from)\s+pyspark\.pipelines)", re.M
)


@dataclass(slots=True)
class Files:
    """All files, read; the SQL is already among the definitions, the Python only compiled."""

    project: Project
    definitions: Definitions = field(default_factory=Definitions)
    python: list[tuple[Path, str, CodeType]] = field(default_factory=list)

    def load(self) -> Definitions:
        """Execute the Python files. A session should be there: a file may ask for it."""
        faults: list[Fault] = []
        with _importable(self.project.directory):
            for path, text, code in self.python:
                with _gathered(faults):
                    self._execute(path, text, code)
        if not faults:
            faults += _unknown_names(self.project, self.definitions)
        if faults:
            raise Faulty(*faults)
        return self.definitions

    def _execute(self, path: Path, text: str, code: CodeType) -> None:
        directory = self.project.directory
        with ExitStack() as stack:
            stack.enter_context(collecting(self.definitions, directory))
            if _USES_SPARKS_WORDS.search(text):
                stack.enter_context(collecting_from_spark(self.definitions, directory))
            # Not a module that others could import: its functions travel to the workers by value.
            names: dict[str, Any] = {"__name__": f"pipeline_{path.stem}", "__file__": str(path), "spark": LazySession()}
            stack.enter_context(UserCode(directory).blamed_on(Place(self.project.shown(path))))
            exec(code, names)


class LazySession:
    """The name `spark` in a pipeline's files: the session that runs it, once there is one."""

    def __getattr__(self, name: str) -> Any:
        from pyspark.sql import SparkSession

        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(SparkSession.active(), name)


def read_files(project: Project) -> Files:
    """Raises `Faulty` with everything that can be said without Spark."""
    files, faults = Files(project), list[Fault]()
    for path in project.files():
        with _gathered(faults):
            text = _text(path, project.shown(path))
            if path.suffix == ".sql":
                sql.define(text, project.shown(path), files.definitions)
            else:
                with UserCode(project.directory).blamed_on(Place(project.shown(path))):
                    files.python.append((path, text, compile(text, path, "exec")))
    if not files.python and not files.definitions.flows and not faults:
        place = Place(project.file.name)
        faults.append(Fault(place, f"no file below {', '.join(project.globs)} defines a flow (INSERT INTO … SELECT …)"))
    if faults:
        raise Faulty(*faults)
    return files


def _unknown_names(project: Project, definitions: Definitions) -> Iterator[Fault]:
    for flow in definitions.flows.values():
        if flow.target not in definitions.targets:
            hint = advice(flow.target, definitions.targets)
            how = (
                "" if hint else f'; a topic is named so: INSERT INTO TOPIC {flow.target}, target="topic:{flow.target}"'
            )
            yield Fault(flow.place, f"there is no sink or table {flow.target}{hint}{how}")
    for name, place in project.flow_places.items():
        if name not in definitions.flows:
            yield Fault(place, f"there is no flow {name}{advice(name, definitions.flows)}")
    if not definitions.flows:
        yield Fault(Place(project.file.name), "the files define no flow, so nothing would run")


@contextmanager
def _gathered(faults: list[Fault]) -> Iterator[None]:
    """One file's faults must not hide those of the next."""
    try:
        yield
    except Faulty as faulty:
        faults += faulty.faults


@contextmanager
def _importable(directory: Path) -> Iterator[None]:
    """The files may import modules of the project's directory."""
    place = str(directory)
    sys.path.insert(0, place)
    try:
        yield
    finally:
        sys.path.remove(place)


def _text(path: Path, shown: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as failure:
        raise Faulty(Fault(Place(shown), f"cannot be read: {failure}")) from None
