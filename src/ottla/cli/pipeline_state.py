"""`ottla pipeline ls|status|pause|resume|reset|logs`: a run, seen and steered from another terminal.

They read and write the files of the project's storage and need no Spark.
"""

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ottla.cli.failure import Failed
from ottla.cli.options import Json, Yes, confirm
from ottla.cli.output import print_json, print_table
from ottla.cli.pipeline_options import HERE, ProjectOption, ProjectPath
from ottla.cli.pipeline_view import COLUMNS, ago, event_line, row
from ottla.cli.spark_extra import spark_room

if TYPE_CHECKING:
    from ottla.spark.pipelines.project import Project
    from ottla.spark.pipelines.state import Run, StateDirectory

Flows = Annotated[list[str], typer.Argument(metavar="FLOW…", show_default=False)]
_DEPTH_MAX = 3
_HEARD_S = 3.0
"""A run looks for wishes several times a second."""


def ls(directory: Annotated[Path, typer.Argument(help="Where to look.")] = HERE, as_json: Json = False) -> None:
    """List the pipelines here and in the directories below, and whether they run."""
    with spark_room():
        from ottla.spark.pipelines.definitions import Faulty
        from ottla.spark.pipelines.project import read_project
        from ottla.spark.pipelines.state import StateDirectory

        found: list[dict[str, object]] = []
        for place in _projects(directory):
            try:
                project = read_project(place)
            except Faulty as faulty:
                found.append({"project": str(place), "pipeline": None, "condition": str(faulty.faults[0])})
                continue
            run = StateDirectory(project.storage).read()
            described: dict[str, object] = {
                "project": str(place),
                "pipeline": project.name,
                "condition": run.condition if run else "never run",
            }
            if run is not None:
                states = [run.flow_state(name) for name in run.status["flows"]]
                described |= {"flows": len(states), "running": states.count("running"), "pid": run.status["pid"]}
            found.append(described)
    if as_json:
        print_json(found)
        return
    columns = ("pipeline", "condition", "flows", "running", "pid", "project")
    print_table([name.upper() for name in columns], [[one.get(name) for name in columns] for one in found])


def status(project: ProjectPath = HERE, as_json: Json = False) -> None:
    """Show how each flow does: the run that is under way, or the last one."""
    with spark_room():
        opened, state = _opened(project)
        run = _run(opened, state)
        paused = sorted(state.paused())
    now = int(time.time() * 1000)
    if as_json:
        print_json({**run.status, "condition": run.condition, "paused": paused})
        return
    flows = run.status["flows"]
    since = ago(run.status["started_ms"], now)
    print(f"{opened.name}: {run.condition}; process {run.status['pid']} on {run.status['host']}, started {since}")
    print_table(COLUMNS, [row(name, flow, run.flow_state(name), now) for name, flow in flows.items()])
    for name, flow in flows.items():
        if flow["why"]:
            print(f"{name} failed last: {flow['why']}")


def pause(flows: Flows, project: ProjectOption = HERE, as_json: Json = False) -> None:
    """Stop flows of a run until `resume`; they stay paused over restarts."""
    with spark_room():
        opened, state = _opened(project)
        run = _run(opened, state)
        for flow in _known(flows, run):
            state.pause(flow)
        if run.is_alive:
            _wait_for(state, flows, ("paused", "finished"))
    _tell_change(flows, "paused", as_json)


def resume(flows: Flows, project: ProjectOption = HERE, as_json: Json = False) -> None:
    """Let flows go on: paused ones, and those that were given up after too many failures."""
    with spark_room():
        opened, state = _opened(project)
        run = _run(opened, state)
        given_up = [flow for flow in _known(flows, run) if run.is_alive and run.flow_state(flow) == "failed"]
        for flow in given_up:
            state.pause(flow)
        _wait_for(state, given_up, ("paused",))
        for flow in flows:
            state.resume(flow)
    _tell_change(flows, "resumed", as_json, "" if run.is_alive else "; the pipeline itself does not run")


def reset(flows: Flows, project: ProjectOption = HERE, yes: Yes = False, as_json: Json = False) -> None:
    """Let flows begin anew, as if they had never run. What they wrote stays, and is written again."""
    with spark_room():
        opened, state = _opened(project)
        run = _run(opened, state)
        for flow in _known(flows, run):
            if run.is_alive and run.flow_state(flow) in ("running", "waiting"):
                raise Failed(f"{flow} is running; pause it first: ottla pipeline pause {flow}")
        print(
            "A flow that is reset forgets how far it has read and what it has added up. It begins where its streams\n"
            "begin (startingOffsets; the earliest, unless they say otherwise), and what it wrote it writes again.",
            file=sys.stderr,
        )
        confirm(f"Reset {', '.join(flows)} of {opened.name}?", yes)
        aside = {flow: state.set_aside(flow) for flow in flows}
    if as_json:
        print_json({"reset": flows, "set_aside": {flow: str(path) for flow, path in aside.items() if path}})
        return
    for flow, path in aside.items():
        print(f"{flow} begins anew; its checkpoint is now {path}" if path else f"{flow} had no checkpoint")


def logs(
    project: ProjectPath = HERE,
    count: Annotated[int, typer.Option("--count", "-n", min=0, help="The last lines.")] = 50,
    follow: Annotated[bool, typer.Option("--follow", "-F", help="Wait for more.")] = False,
    flow: Annotated[str | None, typer.Option("--flow", metavar="NAME", help="Only of this one.")] = None,
    as_json: Json = False,
) -> None:
    """Show what happened: starts, failures, restarts."""
    with spark_room():
        _, state = _opened(project)
        last: list[dict[str, object]] = []
        entries = state.entries(follow)
        for entry in entries:
            if entry is None:
                break
            if flow in (None, entry["flow"]):
                last = [*last, entry][-count:] if count else []
        for entry in last:
            _print_entry(entry, as_json)
        for entry in entries if follow else ():
            if entry is None:
                time.sleep(0.3)
            elif flow in (None, entry["flow"]):
                _print_entry(entry, as_json)


def _tell_change(flows: list[str], done: str, as_json: bool, more: str = "") -> None:
    if as_json:
        print_json({done: flows})
    else:
        print(f"{', '.join(flows)} {done}{more}")


def _print_entry(entry: dict[str, object], as_json: bool) -> None:
    print(json.dumps(entry, ensure_ascii=False) if as_json else event_line(entry), flush=True)


def _projects(directory: Path) -> Iterator[Path]:
    """Directories with a specification, not too deep, hidden ones left out."""
    from ottla.spark.pipelines.project import SPECIFICATIONS

    level = [directory]
    for _ in range(_DEPTH_MAX + 1):
        yield from (place for place in level if any((place / name).is_file() for name in SPECIFICATIONS))
        level = sorted(child for place in level for child in _children(place))


def _children(place: Path) -> Iterator[Path]:
    try:
        yield from (child for child in place.iterdir() if child.is_dir() and not child.name.startswith("."))
    except OSError:
        return


def _opened(place: Path) -> "tuple[Project, StateDirectory]":
    from ottla.spark.pipelines.definitions import Faulty
    from ottla.spark.pipelines.project import read_project
    from ottla.spark.pipelines.state import StateDirectory

    try:
        project = read_project(place)
    except Faulty as faulty:
        raise Failed(str(faulty.faults[0])) from None
    return project, StateDirectory(project.storage)


def _run(project: "Project", state: "StateDirectory") -> "Run":
    run = state.read()
    if run is None:
        raise Failed(f"{project.name} has never been run")
    return run


def _known(flows: list[str], run: "Run") -> list[str]:
    for flow in flows:
        if flow not in run.status["flows"]:
            raise Failed(f"there is no flow {flow}; there are {', '.join(run.status['flows'])}")
    return flows


def _wait_for(state: "StateDirectory", flows: list[str], states: tuple[str, ...]) -> None:
    """Until the run has heard; a batch that is being written may take longer, and is stopped all the same."""
    deadline = time.monotonic() + _HEARD_S
    while flows and time.monotonic() < deadline:
        run = state.read()
        if run is None or not run.is_alive or all(run.flow_state(flow) in states for flow in flows):
            return
        time.sleep(0.1)
