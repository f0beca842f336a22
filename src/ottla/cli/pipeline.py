"""`ottla pipeline …`: projects of queries over topics, run by Spark."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ottla.cli.failure import FAILED, OK
from ottla.cli.options import Json
from ottla.cli.output import count_of, print_json, print_table
from ottla.cli.spark_extra import spark_room

if TYPE_CHECKING:
    from ottla.spark.pipelines.checking import Findings
    from ottla.spark.pipelines.definitions import Fault


class RunMode(StrEnum):
    BATCH = "batch"
    MICRO = "micro"
    TAIL = "tail"


ProjectPath = Annotated[Path, typer.Argument(metavar="[PROJECT]", help="A project's directory, or its pipeline.yml.")]
ModeOption = Annotated[RunMode | None, typer.Option("--mode", help="For all flows; wins over the files.")]
HERE = Path()


def register(app: typer.Typer) -> None:
    pipelines = typer.Typer(help="Pipelines on Spark: SQL and Python over topics.", no_args_is_help=True)
    for command in (init, check):
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
        from ottla.spark.pipelines.project import FlowSettings, Mode
        from ottla.spark.pipelines.running import start_session

        findings = find(project, start_session, FlowSettings(mode=Mode(mode) if mode else None))
    if as_json:
        faults = [fault_json(fault) for fault in findings.faults]
        print_json({"pipeline": findings.pipeline, "flows": findings.flows, "faults": faults})
    else:
        _print(findings)
    return FAILED if findings.faults else OK


def _print(findings: "Findings") -> None:
    for fault in findings.faults:
        print(fault, file=sys.stderr)
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
