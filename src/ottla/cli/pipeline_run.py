"""`ottla pipeline run`: supervises a pipeline's queries until somebody stops it, or until all is done."""

import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ottla.cli.failure import FAILED, INTERRUPTED, OK, Failed, Misused
from ottla.cli.options import Json
from ottla.cli.pipeline_options import HERE, ModeOption, ProjectPath, RunMode, print_faults
from ottla.cli.pipeline_view import event_line, live_table
from ottla.cli.spark_extra import spark_room

if TYPE_CHECKING:
    from ottla.spark.pipelines.running import PipelineRun

Tell = Callable[[dict[str, Any]], None]


def run(
    project: ProjectPath = HERE,
    mode: ModeOption = None,
    once: Annotated[
        bool, typer.Option("--once", help="The same as --mode batch: all that is there, then stop.")
    ] = False,
    flows: Annotated[
        list[str] | None, typer.Option("--flow", metavar="NAME", help="Only this one; repeatable.")
    ] = None,
    bootstrap: Annotated[
        str | None,
        typer.Option(
            "--bootstrap", "-b", metavar="HOST:PORT,…", envvar="OTTLA_BOOTSTRAP", help="Instead of the file's."
        ),
    ] = None,
    metrics: Annotated[
        str | None, typer.Option("--metrics", metavar="HOST:PORT", help="Serve Prometheus metrics there.")
    ] = None,
    master: Annotated[str | None, typer.Option("--master", help="A Spark cluster; without it: this machine.")] = None,
    as_json: Json = False,
) -> int:
    """Run a pipeline. Ctrl-C stops it cleanly; it goes on from there next time."""
    if once and mode not in (None, RunMode.BATCH):
        raise Misused("--once means --mode batch; give one of them")
    chosen = RunMode.BATCH if once else mode
    with spark_room(), ExitStack() as stack:
        from ottla.spark.pipelines.definitions import Faulty
        from ottla.spark.pipelines.pipeline import Wanted, held, open_project, prepare
        from ottla.spark.pipelines.project import FlowSettings, Mode

        screen = Screen(as_json)
        settings = FlowSettings(mode=Mode(chosen) if chosen else None)
        wanted = Wanted(flows=tuple(flows or ()), settings=settings, master=master)
        try:
            found = open_project(project, bootstrap)
            stack.enter_context(held(found))
            pipeline = prepare(found, wanted, screen.tell)
        except Faulty as faulty:
            print_faults(faulty.faults)
            raise Failed(f"{len(faulty.faults)} faults; nothing was started") from None
        if metrics is not None:
            from ottla.spark.pipelines.metrics import served

            screen.say(f"metrics at http://{stack.enter_context(served(metrics, pipeline.status))}/metrics")
        return _supervise(pipeline, screen)


def _supervise(pipeline: "PipelineRun", screen: "Screen") -> int:
    stop = threading.Event()
    with _stopping(stop), screen.showing(pipeline):
        is_well = pipeline.go(stop)
    return OK if is_well else FAILED


@contextmanager
def _stopping(stop: threading.Event) -> Iterator[None]:
    """The first signal stops cleanly, the second at once: what was not committed is read again next time."""

    def on_signal(number: int, frame: object) -> None:
        if stop.is_set():
            os._exit(INTERRUPTED)
        stop.set()

    before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Screen:
    """Where a run tells of itself: a live table for a person, lines for a pipe, JSON lines for a program."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self._print: Callable[[str], None] = lambda line: print(line, flush=True)

    def tell(self, entry: dict[str, Any]) -> None:
        self._print(json.dumps(entry, ensure_ascii=False) if self._as_json else event_line(entry))

    def say(self, line: str) -> None:
        if not self._as_json:
            self._print(line)

    @contextmanager
    def showing(self, pipeline: "PipelineRun") -> Iterator[None]:
        if self._as_json or not sys.stdout.isatty():
            yield
            return
        from rich.console import Console
        from rich.live import Live

        console = Console(highlight=False)
        with Live(
            get_renderable=lambda: live_table(pipeline.status(), pipeline.clock()),
            console=console,
            refresh_per_second=2,
        ):
            self._print = lambda line: console.print(line, markup=False)
            yield
