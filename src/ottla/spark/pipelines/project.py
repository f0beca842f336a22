"""The specification of a pipeline project, `pipeline.yml`: where the files are, how to run."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ottla.spark.not_ready import NotReady
from ottla.spark.pipelines.definitions import Fault, Faulty, Place

SPECIFICATIONS = ("pipeline.yml", "pipeline.yaml", "spark-pipeline.yml", "spark-pipeline.yaml")
DEFAULT_GLOBS = ("transformations/**",)
DEFAULT_STORAGE = ".pipeline"
RESTARTS_MAX = 1000


class Mode(StrEnum):
    BATCH = "batch"
    """All that is there now, and then the end."""
    MICRO = "micro"
    """Small batches, one after the other, until somebody stops it."""
    TAIL = "tail"
    """Rows go on as they come, within milliseconds; only for plans that take each row by itself."""


class Output(StrEnum):
    APPEND = "append"
    UPDATE = "update"
    COMPLETE = "complete"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowSettings:
    """How one flow runs; what is None is as for the whole pipeline."""

    mode: Mode | None = None
    trigger: str | None = None
    output: Output | None = None
    restarts: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    file: Path
    name: str
    bootstrap: str = ""
    globs: tuple[str, ...] = DEFAULT_GLOBS
    storage: Path
    mode: Mode = Mode.MICRO
    restarts: int = 10
    configuration: Mapping[str, str] = field(default_factory=dict)
    """Spark's settings."""
    kafka: Mapping[str, str] = field(default_factory=dict)
    """Client settings for every topic, such as a login."""
    flows: Mapping[str, FlowSettings] = field(default_factory=dict)
    flow_places: Mapping[str, Place] = field(default_factory=dict)

    @property
    def directory(self) -> Path:
        return self.file.parent

    def files(self) -> Iterator[Path]:
        """The Python and SQL files, in the order of their names, each once."""
        found = {
            path
            for pattern in self.globs
            for path in self.directory.glob(_files_below(pattern))
            if path.is_file() and path.suffix in (".py", ".sql") and "__pycache__" not in path.parts
        }
        yield from sorted(found)

    def shown(self, path: Path) -> str:
        """A file's name as messages give it."""
        return str(path.relative_to(self.directory)) if path.is_relative_to(self.directory) else str(path)


def find_specification(place: Path) -> Path:
    """The file itself, or the one in this directory."""
    if place.is_file():
        return place
    for name in SPECIFICATIONS:
        if (place / name).is_file():
            return place / name
    raise NotReady(f"there is no {SPECIFICATIONS[0]} in {place}; `ottla pipeline init NAME` makes a project")


def read_project(place: Path) -> Project:
    """Raises `Faulty` with all faults of the specification."""
    file = find_specification(place).resolve()
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as failure:
        raise Faulty(Fault(Place(file.name), f"cannot be read: {failure}")) from None
    return parse_project(text, file)


def parse_project(text: str, file: Path) -> Project:
    if find_spec("yaml") is None:
        raise NotReady("pipelines need further packages: pip install 'ottla[spark]'")
    import yaml

    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as broken:
        mark = broken.problem_mark or broken.context_mark
        place = Place(file.name, mark.line + 1, mark.column + 1) if mark else Place(file.name)
        raise Faulty(Fault(place, f"is no YAML: {broken.problem}")) from None
    reader = _Reader(file)
    project = reader.project(root)
    if reader.faults:
        raise Faulty(*reader.faults)
    return project


def _files_below(pattern: str) -> str:
    """`folder/**` means the files below the folder; for Python's glob these are only the folders."""
    return f"{pattern}/*" if pattern.endswith("**") else pattern


class _Reader:
    """Turns the nodes of a YAML file into a project, and remembers what is wrong and where."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.faults: list[Fault] = []

    def project(self, root: Any) -> Project:
        found: dict[str, Any] = {}
        readers: dict[str, Callable[[Any], Any]] = {
            "name": self._text,
            "bootstrap": self._text,
            "libraries": self._globs,
            "storage": self._path,
            "mode": self._one_of(Mode),
            "restarts": self._count,
            "configuration": self._texts,
            "kafka": self._texts,
            "flows": self._flows,
        }
        # What Spark's own runner wants and ours has no use for: a file may serve both.
        readers |= dict.fromkeys(("catalog", "database", "schema"), lambda node: None)
        for name, key, value in self._entries(root, readers):
            found[name] = readers[name](value)
            if name == "libraries":
                found["globs"] = found["libraries"]
            elif name == "flows":
                found["flow_places"] = {child.value: self._place(child) for child, _ in _pairs(value)}
            elif name == "name" and not found[name]:
                self._fault(key, "the pipeline needs a name")
        if "name" not in found:
            self._fault(root, "`name:` is missing")
        given = {name: value for name, value in found.items() if value is not None and name in _FIELDS}
        given.setdefault("storage", self._file.parent / DEFAULT_STORAGE)
        given.setdefault("name", "")
        return Project(file=self._file, **given)

    def _entries(self, node: Any, known: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
        if not self._is(node, "mapping"):
            return
        seen = set()
        for key, value in _pairs(node):
            if key.value in seen:
                self._fault(key, f"{key.value} is given twice")
            elif key.value not in known:
                self._fault(key, f"there is no {key.value!r} here{advice(key.value, known)}")
            else:
                yield key.value, key, value
            seen.add(key.value)

    def _flows(self, node: Any) -> dict[str, FlowSettings]:
        readers: dict[str, Callable[[Any], Any]] = {
            "mode": self._one_of(Mode),
            "trigger": self._text,
            "output": self._one_of(Output),
            "restarts": self._count,
        }
        flows = {}
        if self._is(node, "mapping"):
            for key, value in _pairs(node):
                given: dict[str, Any] = {name: readers[name](child) for name, _, child in self._entries(value, readers)}
                flows[key.value] = FlowSettings(**given)
        return flows

    def _globs(self, node: Any) -> tuple[str, ...] | None:
        globs = []
        if not self._is(node, "sequence"):
            return None
        for item in node.value:
            for _, _, library in self._entries(item, {"glob": None, "file": None}):
                if library.id == "scalar":
                    globs.append(str(library.value))
                    continue
                globs += [str(value.value) for _, _, value in self._entries(library, {"include": None})]
        return tuple(globs)

    def _texts(self, node: Any) -> dict[str, str]:
        if not self._is(node, "mapping"):
            return {}
        return {key.value: text for key, value in _pairs(node) if (text := self._text(value)) is not None}

    def _text(self, node: Any) -> str | None:
        return str(node.value) if self._is(node, "scalar") else None

    def _path(self, node: Any) -> Path | None:
        text = self._text(node)
        if text is None:
            return None
        if "://" in text and not text.startswith("file://"):
            self._fault(node, "storage is a directory of this machine; it holds the state of the run, too")
            return None
        return self._file.parent / Path(text.removeprefix("file://")).expanduser()

    def _count(self, node: Any) -> int | None:
        text = self._text(node) or ""
        if text.isascii() and text.isdecimal() and int(text) <= RESTARTS_MAX:
            return int(text)
        self._fault(node, f"a number from 0 to {RESTARTS_MAX} is expected here, not {text!r}")
        return None

    def _one_of(self, kind: type[StrEnum]) -> Callable[[Any], StrEnum | None]:
        def read(node: Any) -> StrEnum | None:
            text = self._text(node)
            if text in list(kind):
                return kind(text)
            self._fault(node, f"{', '.join(kind)} are possible here, not {text!r}")
            return None

        return read

    def _is(self, node: Any, kind: str) -> bool:
        if node is not None and node.id == kind:
            return True
        words = {"mapping": "`name: value` lines are", "sequence": "a list is", "scalar": "a single value is"}
        self._fault(node, f"{words[kind]} expected here")
        return False

    def _fault(self, node: Any, why: str) -> None:
        self.faults.append(Fault(self._place(node), why))

    def _place(self, node: Any) -> Place:
        if node is None:
            return Place(self._file.name)
        return Place(self._file.name, node.start_mark.line + 1, node.start_mark.column + 1)


_FIELDS = frozenset(Project.__dataclass_fields__)


def _pairs(node: Any) -> list[tuple[Any, Any]]:
    return list(node.value) if node is not None and node.id == "mapping" else []


def advice(word: str, known: Mapping[str, Any] | set[str] | frozenset[str]) -> str:
    """ "; did you mean …?" where something known is spelt alike."""
    close = get_close_matches(word.lower(), list(known), 1, 0.6)
    return f"; did you mean {close[0]}?" if close else ""
