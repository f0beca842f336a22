"""From definitions to DataFrames: each flow's query over its streams, encoded for its target, with its dead letters."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ottla.spark.pipelines import decoding, encoding, targets
from ottla.spark.pipelines.definitions import Definitions, Fault, Faulty, Flow, Query, Source, SqlText, Target, View
from ottla.spark.pipelines.positions import fault_in
from ottla.spark.pipelines.project import FlowSettings, Mode, Output, Project, advice
from ottla.spark.pipelines.shape import Shape
from ottla.spark.pipelines.sql import TOPIC_FORMAT, topic_target
from ottla.spark.pipelines.topics import Topics, faults_of_options
from ottla.spark.pipelines.user_code import UserCode

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DEAD = "_dead"
"""A column of rows for topics: whether it is a dead letter. The batch that writes them takes it away."""
RUNNING_OPTIONS = ("mode", "trigger", "output")


@dataclass(frozen=True, slots=True)
class PlannedFlow:
    flow: Flow
    target: Target
    frame: "DataFrame"
    settings: FlowSettings
    """Nothing in them is None but perhaps the trigger."""
    sources: tuple[str, ...]
    dead_letters: tuple[str, ...] = ()
    """The topics of dead letters that this flow writes, too."""
    not_for_tail: tuple[str, ...] = ()
    scans: tuple[int, ...] = ()
    """How often each stream is read by the whole of it."""

    @property
    def name(self) -> str:
        return self.flow.name


@dataclass(slots=True)
class Plans:
    spark: "SparkSession"
    project: Project
    definitions: Definitions
    topics: Topics
    override: FlowSettings = field(default_factory=FlowSettings)
    """From the command line: wins over everything."""
    faults: list[Fault] = field(default_factory=list)
    _bad: dict[str, "DataFrame"] = field(default_factory=dict)
    _pending: dict[str, View] = field(default_factory=dict)

    def flows(self) -> list[PlannedFlow]:
        """All that can be planned; the rest is among the `faults`."""
        settings = {
            flow.name: given
            for flow in self.definitions.flows.values()
            if (given := self._note(lambda flow=flow: self._settings(flow))) is not None
        }
        found: list[PlannedFlow] = []
        for is_tail in (False, True):
            names = [name for name, given in settings.items() if (given.mode is Mode.TAIL) == is_tail]
            if names or not is_tail:
                self._register(is_tail)
            for name in names:
                flow = self.definitions.flows[name]
                planned = self._note(lambda flow=flow: self._planned(flow, settings[flow.name]))
                found += [planned] if planned is not None else []
        order = list(self.definitions.flows)
        found.sort(key=lambda one: order.index(one.name))
        return [*found, *self._dead_letter_flows(found)]

    def _register(self, is_tail: bool) -> None:
        """All names that queries may use. Flows of the mode tail have streams of their own under the same names."""
        for source in self.definitions.sources.values():
            self._note(lambda source=source: self._register_source(source, is_tail))
        self._pending = dict(self.definitions.views)
        while self._pending:
            view = next(iter(self._pending.values()))
            self._note(lambda view=view: self._register_view(view, ()))

    def _note(self, step: Any) -> Any:
        try:
            return step()
        except Faulty as faulty:
            self.faults += [fault for fault in faulty.faults if fault not in self.faults]
            return None

    def _register_source(self, source: Source, is_tail: bool) -> None:
        faults = list(faults_of_options(source, self.project, is_tail))
        if faults:
            raise Faulty(*faults)
        with UserCode(self.project.directory).blamed_on(source.place):
            topics = self.topics
            rows = decoding.latest(topics.table(source)) if source.is_table else topics.stream(source, is_tail)
            decoded = decoding.decode(rows, source, self.project.directory)
            decoded.good.createOrReplaceTempView(source.name)
            if decoded.bad is not None and not (source.is_table or is_tail):
                self._bad[source.name] = decoding.dead_rows(decoded.bad, source, self.project.name)

    def _register_view(self, view: View, inside: tuple[str, ...]) -> None:
        self._pending.pop(view.name, None)
        frame = self._frame(view.query, view, inside)
        with UserCode(self.project.directory).blamed_on(view.place):
            frame.createOrReplaceTempView(view.name)

    def _frame(self, query: Query, thing: View | Flow, inside: tuple[str, ...]) -> "DataFrame":
        """Spark's answer to the query; views that it asks for and that are not there yet are made first."""
        from pyspark.errors import AnalysisException

        while True:
            try:
                return self._answer(query, thing)
            except Faulty as faulty:
                cause = faulty.__cause__
                wanted = _missing_view(cause) if isinstance(cause, AnalysisException) else ""
                if wanted in (*inside, thing.name) and isinstance(thing, View):
                    raise Faulty(Fault(thing.place, f"{thing.name} is made of itself, by way of {wanted}")) from None
                if wanted not in self._pending:
                    raise self._explained(faulty, wanted) from None
                self._register_view(self._pending[wanted], (*inside, thing.name))

    def _answer(self, query: Query, thing: View | Flow) -> "DataFrame":
        from pyspark.errors import PySparkException
        from pyspark.sql.classic.dataframe import DataFrame

        if isinstance(query, SqlText):
            try:
                return self.spark.sql(query.padded())
            except PySparkException as failure:
                raise Faulty(fault_in(query, failure, padded=True)) from failure
        frame = UserCode(self.project.directory).call(query, thing.place)
        if not isinstance(frame, DataFrame):
            raise Faulty(Fault(thing.place, f"{thing.name} returns {type(frame).__name__} and not a DataFrame"))
        return frame

    def _explained(self, faulty: Faulty, wanted: str) -> Faulty:
        """Why a name is not there; of a table that this pipeline writes, too, which cannot be read in it."""
        known: dict[str, Source | View] = {**self.definitions.sources, **self.definitions.views}
        if not wanted:
            return faulty
        if wanted in known:
            why = f"{wanted} cannot be read, for it has a fault itself ({known[wanted].place})"
        elif wanted in self.definitions.targets:
            why = f"{wanted} is written by this pipeline; to read on from it, let the rows go to a topic and read that"
        else:
            why = f"there is no stream or view {wanted}{advice(wanted, known)}"
        return Faulty(*(Fault(fault.place, why) for fault in faulty.faults))

    def _planned(self, flow: Flow, settings: FlowSettings) -> PlannedFlow:
        target = self.definitions.targets[flow.target]
        frame = self._frame(flow.query, flow, ())
        if not frame.isStreaming:
            raise Faulty(
                Fault(flow.place, f"{flow.name} reads no stream, so it would write the same rows again in every run")
            )
        shape = Shape.of(frame)
        sources = tuple(name for name in self.definitions.sources if name in shape.names)
        options = {**target.options, **_own_options(flow)}
        faults = [*_unknown_options(flow, target), *targets.faults(self.spark, flow, target, settings)]
        faults += [Fault(flow.place, f"{flow.name}: {why}") for why in shape.against_output(settings.output)]
        if faults:
            raise Faulty(*faults)
        planned = PlannedFlow(flow, target, frame, settings, sources)
        if target.format == TOPIC_FORMAT:
            planned = self._with_dead_letters(
                replace(planned, frame=encoding.encoded(frame, flow, options, self.project.directory))
            )
        reasons = tuple(_not_for_tail(planned, shape))
        if settings.mode is Mode.TAIL and reasons:
            raise Faulty(Fault(flow.place, f"{flow.name} cannot be run as tail: {'; '.join(reasons)}"))
        return replace(planned, not_for_tail=reasons, scans=Shape.of(planned.frame).scans)

    def _settings(self, flow: Flow) -> FlowSettings:
        """The command line, then the specification, then the flow's own options, then what is usual."""
        own: dict[str, Any] = {name: flow.options[name] for name in RUNNING_OPTIONS if name in flow.options}
        faults = []
        for name, kind in (("mode", Mode), ("output", Output)):
            if name in own and own[name] not in list(kind):
                faults.append(Fault(flow.place, f"{flow.name}: {name} is one of {', '.join(kind)}, not {own[name]}"))
            elif name in own:
                own[name] = kind(own[name])
        if faults:
            raise Faulty(*faults)
        usual = FlowSettings(mode=self.project.mode, output=Output.APPEND, restarts=self.project.restarts)
        found: dict[str, Any] = {}
        given = self.project.flows.get(flow.name, FlowSettings())
        for layer in (usual, FlowSettings(**own), given, self.override):
            for name in FlowSettings.__dataclass_fields__:
                if (value := getattr(layer, name)) is not None:
                    found[name] = value
        return FlowSettings(**found)

    def _with_dead_letters(self, planned: PlannedFlow) -> PlannedFlow:
        """Good and bad rows as one frame, hence in one transaction. The first flow that can takes the letters."""
        from pyspark.sql import functions as F

        frame = planned.frame.withColumn(DEAD, F.lit(False))
        if planned.settings.output is Output.COMPLETE or planned.settings.mode is Mode.TAIL:
            return replace(planned, frame=frame)
        topics = []
        for name in planned.sources:
            if name in self._bad:
                letters = self._bad.pop(name).withColumn(DEAD, F.lit(True))
                frame = frame.unionByName(letters, allowMissingColumns=True)
                topics.append(decoding.dead_letter_topic(self.definitions.sources[name]))
        return replace(planned, frame=frame, dead_letters=tuple(topics))

    def _dead_letter_flows(self, planned: list[PlannedFlow]) -> Iterator[PlannedFlow]:
        """Streams that no flow to a topic reads get a flow of their own for what cannot be read of them."""
        from pyspark.sql import functions as F

        for name in list(self._bad):
            readers = [one for one in planned if name in one.sources]
            if not readers:
                continue
            source = self.definitions.sources[name]
            topic = decoding.dead_letter_topic(source)
            target = Target(topic_target(topic), source.place, TOPIC_FORMAT, {"topic": topic})
            flow = Flow(self.definitions.free_flow_name(f"{name}_dead_letters"), source.place, target.name, _no_query)
            settings = replace(self._settings(flow), output=Output.APPEND)
            if settings.mode is Mode.TAIL:
                settings = replace(settings, mode=Mode.MICRO)
            frame = self._bad.pop(name).withColumn(DEAD, F.lit(True))
            yield PlannedFlow(flow, target, frame, settings, (name,), (topic,), ("it writes dead letters",))


def _no_query() -> "DataFrame":
    raise AssertionError("a flow of dead letters is planned, not asked for")


def _own_options(flow: Flow) -> dict[str, str]:
    return {name: value for name, value in flow.options.items() if name not in RUNNING_OPTIONS}


def _unknown_options(flow: Flow, target: Target) -> Iterator[Fault]:
    own = _own_options(flow)
    known = encoding.OPTIONS if target.format == TOPIC_FORMAT else frozenset()
    for name in own:
        if name not in known:
            possible = ", ".join([*sorted(known), *RUNNING_OPTIONS])
            yield Fault(flow.place, f"{flow.name}: a flow has no option {name}; it has {possible}")


def _missing_view(failure: Any) -> str:
    if failure.getCondition() != "TABLE_OR_VIEW_NOT_FOUND":
        return ""
    return re.sub("`", "", (failure.getMessageParameters() or {}).get("relationName", ""))


def _not_for_tail(planned: PlannedFlow, shape: Shape) -> Iterator[str]:
    yield from shape.against_tail()
    if planned.target.format != TOPIC_FORMAT:
        yield f"its rows go to {planned.target.format or 'a table'}, which takes whole batches"
    if planned.settings.output is not Output.APPEND:
        yield f"its output is {planned.settings.output}"
    if planned.settings.trigger:
        yield "it has a trigger, and tail waits for none"
    if planned.dead_letters:
        yield "it reads its topic twice, for good rows and for bad ones (errors = 'drop' or 'fail' reads once)"
