"""What the files of a pipeline define, whatever language they are in. Plain data; no Spark, no cluster here."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Place:
    """Where something is said: lines and columns count from 1; column 0 is the whole line, line 0 the whole file."""

    file: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return ":".join([self.file, *(str(number) for number in (self.line, self.column) if number)])


@dataclass(frozen=True, slots=True)
class Fault:
    place: Place
    why: str

    def __str__(self) -> str:
        return f"{self.place}: {self.why}"


class Faulty(Exception):
    """The pipeline cannot be run as it is written; says where and why, as often as needed."""

    def __init__(self, *faults: Fault) -> None:
        super().__init__("\n".join(map(str, faults)))
        self.faults = faults


@dataclass(frozen=True, slots=True)
class SqlText:
    """A piece of Spark SQL, and where it began."""

    text: str
    place: Place

    def padded(self) -> str:
        """With as many lines and columns before it as in its file, so that Spark's positions are the file's."""
        return "\n" * (self.place.line - 1) + " " * (self.place.column - 1) + self.text


Query = SqlText | Callable[[], Any]
"""Spark SQL, or a function that returns a DataFrame."""
Options = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Source:
    """A topic under a name, its records decoded. `is_table`: the last value of each key instead of all records."""

    name: str
    place: Place
    topic: str
    options: Options = field(default_factory=dict)
    columns: SqlText | None = None
    is_table: bool = False


@dataclass(frozen=True, slots=True)
class View:
    name: str
    place: Place
    query: Query


@dataclass(frozen=True, slots=True)
class Target:
    """Where a flow ends: `format` names the kind of place (ottla for a topic, delta, parquet, console …)."""

    name: str
    place: Place
    format: str
    options: Options = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Flow:
    """One query that runs: its rows go to the target."""

    name: str
    place: Place
    target: str
    query: Query
    options: Options = field(default_factory=dict)


@dataclass(slots=True)
class Definitions:
    """All that was defined, by name. Sources and views share their names, for a query reads both alike."""

    sources: dict[str, Source] = field(default_factory=dict)
    views: dict[str, View] = field(default_factory=dict)
    targets: dict[str, Target] = field(default_factory=dict)
    flows: dict[str, Flow] = field(default_factory=dict)

    def add(self, thing: Source | View | Target | Flow) -> None:
        for shelf in self._shelves_shared_with(thing):
            if (other := shelf.get(thing.name)) is not None:
                raise Faulty(Fault(thing.place, f"{thing.name} is defined twice; first at {other.place}"))
        match thing:
            case Source():
                self.sources[thing.name] = thing
            case View():
                self.views[thing.name] = thing
            case Target():
                self.targets[thing.name] = thing
            case Flow():
                self.flows[thing.name] = thing

    def _shelves_shared_with(self, thing: Source | View | Target | Flow) -> Iterator[Mapping[str, Any]]:
        match thing:
            case Source() | View():
                yield from (self.sources, self.views)
            case Target():
                yield self.targets
            case Flow():
                yield self.flows

    def free_flow_name(self, wanted: str) -> str:
        """Flows need no name; several into one target are told apart by a number."""
        names = (wanted, *(f"{wanted}_{number}" for number in range(2, len(self.flows) + 3)))
        return next(name for name in names if name not in self.flows)
