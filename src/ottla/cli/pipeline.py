"""`ottla pipeline …`: projects of queries over topics, run by Spark."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ottla.cli.failure import FAILED, OK
from ottla.cli.options import Json
from ottla.cli.output import count_of, print_json, print_table
from ottla.cli.pipeline_options import HERE, ModeOption, ProjectPath, print_faults
from ottla.cli.pipeline_run import run
from ottla.cli.pipeline_state import logs, ls, pause, reset, resume, status
from ottla.cli.spark_extra import spark_room

if TYPE_CHECKING:
    from ottla.spark.pipelines.checking import Findings
    from ottla.spark.pipelines.definitions import Fault


def register(app: typer.Typer) -> None:
    pipelines = typer.Typer(help="Pipelines on Spark: SQL and Python over topics.", no_args_is_help=True)
    for command in (init, check, run, ls, status, pause, resume, reset, logs):
        pipelines.command(name=command.__name__)(command)
    app.add_typer(pipelines, name="pipeline")


def init(
    directory: Annotated[Path, typer.Argument(metavar="NAME", show_default=False, help="A directory to make.")],
) -> None:
    """Write a small project that works, and say what to do next."""
    with spark_room():
        from ottla.spark.pipelines.starting import start_project

        print(start_project(directory), end="")


def check(project: ProjectPath = HERE, mode: ModeOption = None, as_json: Json = False) -> int:
    """Look at every plan, without a broker: what is wrong, and where."""
    with spark_room():
        from ottla.spark.pipelines.checking import check as find
        from ottla.spark.pipelines.pipeline import start_session
        from ottla.spark.pipelines.project import FlowSettings, Mode

        findings = find(project, start_session, FlowSettings(mode=Mode(mode) if mode else None))
    if as_json:
        faults = [fault_json(fault) for fault in findings.faults]
        print_json({"pipeline": findings.pipeline, "flows": findings.flows, "faults": faults})
    else:
        _print(findings)
    return FAILED if findings.faults else OK


def _print(findings: "Findings") -> None:
    print_faults(findings.faults)
    if findings.flows:
        rows = [_row(flow) for flow in findings.flows]
        print_table(["FLOW", "READS", "WRITES", "MODE", "OUTPUT", "DEAD LETTERS", "WHY NOT TAIL"], rows)
    verdict = count_of(len(findings.faults), "fault") if findings.faults else "nothing wrong"
    print(f"{findings.pipeline or 'pipeline'}: {verdict}", file=sys.stderr)


def _row(flow: dict[str, Any]) -> list[object]:
    lists = {name: ", ".join(flow[name]) for name in ("reads", "dead_letters")}
    why = "; ".join(flow["not_for_tail"])
    return [flow["name"], lists["reads"], flow["writes"], flow["mode"], flow["output"], lists["dead_letters"], why]


def fault_json(fault: "Fault") -> dict[str, object]:
    place = fault.place
    return {"file": place.file, "line": place.line, "column": place.column, "why": fault.why}
