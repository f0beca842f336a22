"""What the commands of `ottla pipeline` share."""

import sys
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from ottla.spark.pipelines.definitions import Fault


class RunMode(StrEnum):
    BATCH = "batch"
    MICRO = "micro"
    TAIL = "tail"


ProjectPath = Annotated[Path, typer.Argument(metavar="[PROJECT]", help="A project's directory, or its pipeline.yml.")]
ProjectOption = Annotated[
    Path, typer.Option("--project", "-P", metavar="PROJECT", help="A project's directory, or its pipeline.yml.")
]
ModeOption = Annotated[RunMode | None, typer.Option("--mode", help="For all flows; wins over the files.")]
HERE = Path()


def print_faults(faults: "Iterable[Fault]") -> None:
    for fault in faults:
        print(fault, file=sys.stderr)
