"""`ottla start`: reads the settings, puts a node together, runs it until it is told to stop."""

import asyncio
import errno
import gc
import os
import resource
import signal
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import structlog
import typer

import ottla
from ottla.base.broker_settings import BROKER_SETTINGS, BrokerConfig, unknown_setting
from ottla.base.errors import Refused
from ottla.base.settings import BadSetting
from ottla.cli.failure import Failed, Misused
from ottla.cli.logs import LogLevel, write_logs
from ottla.cli.output import discard_output
from ottla.cli.properties import parse_pairs, read_settings

log = structlog.get_logger(__name__)

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)

DESCRIPTORS_WANTED = 65_536


def register(app: typer.Typer) -> None:
    app.command(name="start")(start)


def start(
    data_dirs: Annotated[
        list[Path] | None,
        typer.Option("--data-dir", "-d", metavar="DIR", help="Where the logs are; repeat to spread them over disks."),
    ] = None,
    listen: Annotated[
        str | None, typer.Option("--listen", "-l", metavar="HOST:PORT", help="Default: 127.0.0.1:9092. Port 0: any.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option("--config", "-c", metavar="FILE", help="Kafka's server.properties, or TOML.")
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", "-s", metavar="NAME=VALUE", help="A Kafka broker setting; repeatable.")
    ] = None,
    log_level: Annotated[LogLevel, typer.Option("--log-level", envvar="OTTLA_LOG_LEVEL")] = LogLevel.INFO,
) -> None:
    """Run a node until Ctrl-C. Needs no configuration.

    Settings come from the file, then OTTLA_<NAME> variables (OTTLA_NUM_PARTITIONS=3), then flags; the last one wins.
    """
    write_logs(log_level)
    flags = Flags(tuple(data_dirs or ()), listen, config, parse_pairs(settings, "--set"))
    run(node_config(flags, os.environ))


@dataclass(frozen=True)
class Flags:
    data_dirs: tuple[Path, ...] = ()
    listen: str | None = None
    config: Path | None = None
    settings: Mapping[str, str] | None = None


def node_config(flags: Flags, environment: Mapping[str, str]) -> BrokerConfig:
    """What the file, the environment and the flags say together; the later of these wins."""
    file = flags.config or (Path(given) if (given := environment.get("OTTLA_CONFIG")) else None)
    texts = known_settings(read_settings(file), file) if file else {}
    texts |= environment_settings(environment)
    texts |= flags.settings or {}
    listen = flags.listen or environment.get("OTTLA_LISTEN")
    if listen:
        texts["listeners"] = listen
    directories = flags.data_dirs or _directories(environment.get("OTTLA_DATA_DIR", ""))
    try:
        config = BrokerConfig.from_texts(texts)
        if directories or not config.log_dirs:
            directories = directories or (default_directory(environment),)
            texts["log.dirs"] = ",".join(map(str, directories))
            return BrokerConfig.from_texts(texts, log_dirs=directories)
    except BadSetting as problem:
        raise Misused(str(problem)) from None
    return config


def known_settings(texts: Mapping[str, str], file: Path) -> dict[str, str]:
    """Existing files hold settings of other versions and of plugins; as in Kafka they are no reason not to start."""
    known = {name: text for name, text in texts.items() if name in BROKER_SETTINGS}
    for name in sorted(texts.keys() - known.keys()):
        log.warning("setting ignored", file=str(file), reason=unknown_setting(name))
    return known


def environment_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """OTTLA_LOG_RETENTION_MS is log.retention.ms. A name that means nothing is not ours: Kubernetes sets OTTLA_PORT."""
    names = {f"OTTLA_{name.replace('.', '_').upper()}": name for name in BROKER_SETTINGS}
    return {names[name]: value for name, value in environment.items() if name in names}


def _directories(text: str) -> tuple[Path, ...]:
    return tuple(Path(part) for part in text.split(os.pathsep) if part)


def default_directory(environment: Mapping[str, str]) -> Path:
    """The XDG data directory, on every system: one place to look for."""
    given = environment.get("XDG_DATA_HOME", "")
    base = Path(given) if given.startswith("/") else Path.home() / ".local" / "share"
    return base / "ottla"


def run(config: BrokerConfig) -> None:
    from ottla.runtime import loop

    raise_descriptor_limit()
    try:
        loop.run(serve(config))
    except Refused as refusal:
        raise Failed(refusal.why) from None
    except OSError as failure:
        raise Failed(_why_not(failure, config)) from None


def raise_descriptor_limit() -> None:
    """Many systems give a process few descriptors unless it asks for more; connections and segments need many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS_WANTED if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS_WANTED)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


async def serve(config: BrokerConfig) -> None:
    """Start the node, say so, wait for a signal, stop the node."""
    # Loading the node makes many objects and no garbage; collecting meanwhile costs a tenth of the start.
    gc.disable()
    from ottla.broker.server import Node

    gc.freeze()
    gc.enable()
    node = Node(config)
    stop = asyncio.Event()
    running = asyncio.get_running_loop()
    for number in STOP_SIGNALS:
        running.add_signal_handler(number, stop.set)
    try:
        await node.start()
        if not stop.is_set():
            announce(announcement(node.bootstrap, config))
        stopped = running.create_task(stop.wait())
        await asyncio.wait((stopped, node.failed), return_when=asyncio.FIRST_COMPLETED)
        if node.failed.done():
            stopped.cancel()
            raise Failed(f"the node cannot go on: {node.failed.result() or 'it does not know why'}")
    finally:
        # From here on a second Ctrl-C ends the process at once: the logs recover from that.
        for number in STOP_SIGNALS:
            running.remove_signal_handler(number)
        await node.stop()


def announce(text: str) -> None:
    try:
        print(text, flush=True)
    except BrokenPipeError:
        discard_output()  # nobody wants to read it; the node is wanted all the same


def announcement(bootstrap: str, config: BrokerConfig) -> str:
    other = "" if bootstrap == "127.0.0.1:9092" else f"OTTLA_BOOTSTRAP={bootstrap} "
    exposed = [listener.address for listener in config.listeners if not is_loopback(listener.host)]
    return "\n".join(
        [
            f"Ottla {ottla.__version__} is listening on {bootstrap}",
            f"  data      {', '.join(map(str, config.log_dirs))}",
            f"  clients   bootstrap.servers={bootstrap}",
            f"  try       echo hello | {other}ottla produce greetings",
            f"            {other}ottla consume greetings",
            *(
                f"  beware    whoever reaches {address} can read and write: there are no passwords"
                for address in exposed
            ),
            "  stop      Ctrl-C",
        ]
    )


def is_loopback(host: str) -> bool:
    return host in ("localhost", "::1") or host.startswith("127.")


def _why_not(failure: OSError, config: BrokerConfig) -> str:
    addresses = ", ".join(listener.address for listener in config.listeners)
    what = failure.strerror or str(failure)
    if failure.errno == errno.EADDRINUSE:
        if config.metrics_listener:
            addresses += f" or {config.metrics_listener} (metrics)"
        return f"{addresses} is in use, perhaps by another node; choose another with --listen HOST:PORT"
    if failure.errno == errno.EADDRNOTAVAIL or isinstance(failure, socket.gaierror):
        return f"cannot listen on {addresses}: {what}"
    if failure.filename is None:
        return f"cannot start on {addresses}: {what}"
    return f"cannot use {os.fsdecode(failure.filename)}: {what}"
