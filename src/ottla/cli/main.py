"""The `ottla` command: finds the command, runs it, and turns what went wrong into one line and an exit code."""

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated

import typer
from typer.exceptions import Abort, TyperException

from ottla import __version__
from ottla.cli.failure import FAILED, INTERRUPTED, MISUSED, OK, Failed, Misused
from ottla.cli.output import discard_output

COMMANDS = {
    "start": "ottla.cli.start",
    "topic": "ottla.cli.topic",
    "group": "ottla.cli.group",
    "txn": "ottla.cli.txn",
    "produce": "ottla.cli.produce",
    "consume": "ottla.cli.consume",
    "config": "ottla.cli.config",
    "cluster": "ottla.cli.cluster",
    "pipeline": "ottla.cli.pipeline",
    "dlq": "ottla.cli.dlq",
    "log": "ottla.cli.log",
    "version": "ottla.cli.version",
}
"""Each module has a `register(app)`. Only the module that is asked for is imported: `ottla start` must be quick."""


def build(arguments: Sequence[str]) -> typer.Typer:
    app = typer.Typer(
        name="ottla",
        help="Ottla, a Kafka-compatible commit log: run a node, and work with any Kafka cluster.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    # A callback keeps `ottla start` a subcommand even when it is the only one that was loaded.
    @app.callback()
    def ottla(
        version: Annotated[
            bool, typer.Option("--version", "-V", is_eager=True, callback=_tell_version, help="Print the version.")
        ] = False,
    ) -> None: ...

    asked = arguments[0] if arguments else ""
    if asked == "start":
        _load_structlog_alone()
    for name in [asked] if asked in COMMANDS else COMMANDS:
        import_module(COMMANDS[name]).register(app)
    return app


def _load_structlog_alone() -> None:
    """Without rich, which it takes for its tracebacks if it can: they are not worth a twelfth of a node's memory."""
    if "structlog" not in sys.modules and "rich" not in sys.modules:
        sys.modules["rich"] = None  # type: ignore[assignment]  # "not to be had", to whoever imports it
        try:
            import_module("structlog")
        finally:
            del sys.modules["rich"]


def _tell_version(wanted: bool) -> None:
    if wanted:
        print(f"ottla {__version__}")
        raise typer.Exit


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code."""
    try:
        code = build(arguments)(list(arguments), prog_name="ottla", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else OK
    except Misused as misuse:
        return _complain(str(misuse), MISUSED)
    except Failed as failure:
        return _complain(str(failure), FAILED)
    except TyperException as misuse:
        return _complain_about_usage(misuse)
    except Abort:
        return _complain("aborted", FAILED)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        discard_output()
        return FAILED
    except OSError as failure:
        # Commands explain the files that they read; what is left is what they write to: a full disk, mostly.
        discard_output()
        return _complain(f"cannot write the output: {failure.strerror or failure}", FAILED)


def _complain(what: str, code: int) -> int:
    print(f"ottla: {what}", file=sys.stderr)
    return code


def _complain_about_usage(misuse: TyperException) -> int:
    message = " ".join(misuse.format_message().split())
    if not message:
        return misuse.exit_code
    context = getattr(misuse, "ctx", None)
    where = f" (see {context.command_path} --help)" if context is not None else ""
    return _complain(f"{message.rstrip('.')}{where}", misuse.exit_code)


def main() -> None:
    sys.exit(run(sys.argv[1:]))
