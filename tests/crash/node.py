"""A node as a child process that is killed, paused, starved and started again on the same directories."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

START_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 30.0
_PROBE = b"\x00\x00\x00\x0a" + b"\x00\x12\x00\x00\x00\x00\x00\x01\xff\xff"
"""ApiVersions, version 0."""


class DidNotStart(RuntimeError):
    """The node exited instead of answering; says what it printed."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class NodeProcess:
    def __init__(
        self, root: Path, settings: Mapping[str, str] | None = None, data_dirs: Sequence[Path] | None = None
    ) -> None:
        root.mkdir(parents=True, exist_ok=True)
        self.data_dirs = tuple(data_dirs or (root / "data",))
        self.settings = dict(settings or {})
        self.port = free_port()
        self.wrapper: tuple[str, ...] = ()
        """What to run it with, from its first system call on; it must leave the process id to the node."""
        self._log = root / "node.log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def data_dir(self) -> Path:
        return self.data_dirs[0]

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return None if self._process is None else self._process.poll()

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def log_text(self) -> str:
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    @property
    def rss_bytes(self) -> int:
        status = Path(f"/proc/{self.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
        return int(line.split()[1]) * 1024

    def command(self) -> list[str]:
        return [
            *self.wrapper,
            str(Path(sys.executable).with_name("ottla")),
            *("start", "--listen", self.bootstrap),
            *(part for path in self.data_dirs for part in ("--data-dir", str(path))),
            *(part for name, value in self.settings.items() for part in ("--set", f"{name}={value}")),
        ]

    # --- start

    def launch(self) -> None:
        """Begin to start; returns at once."""
        assert not self.is_running
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(
                self.command(), stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=_environment()
            )

    def wait_ready(self) -> None:
        """Until it answers a request."""
        deadline = time.monotonic() + START_SECONDS_MAX
        while not self.answers():
            if not self.is_running:
                raise DidNotStart(f"exit code {self.exit_code}\n{self.log_text[-6000:]}")
            assert time.monotonic() < deadline, f"the node does not answer\n{self.log_text[-6000:]}"
            time.sleep(0.01)

    def start(self) -> None:
        self.launch()
        self.wait_ready()

    def answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=5) as probe:
                probe.sendall(_PROBE)
                return len(probe.recv(10)) == 10
        except OSError:
            return False

    # --- end

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait(STOP_SECONDS_MAX)

    def send_signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def wait_exit(self) -> int:
        assert self._process is not None
        try:
            return self._process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"the node does not end\n{self.log_text[-6000:]}") from None

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Ask it to stop; its exit code."""
        self.send_signal(how)
        return self.wait_exit()

    def discard(self) -> None:
        if self.is_running:
            self.send_signal(signal.SIGCONT)
            self.kill()


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("OTTLA_")}
