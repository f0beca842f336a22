"""The node as a child process with one listener a client, so that each client has a network of its own."""

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
_API_VERSIONS = b"\x00\x00\x00\x0a" + b"\x00\x12\x00\x00\x00\x00\x00\x01\xff\xff"


def free_ports(count: int) -> list[int]:
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]
    finally:
        for probe in probes:
            probe.close()


class Node:
    def __init__(self, root: Path, settings: Mapping[str, str], links: Sequence[tuple[int, int]]) -> None:
        """`links`: the port that clients are told, and the one behind it where the node listens."""
        root.mkdir(parents=True, exist_ok=True)
        [self.port] = free_ports(1)
        inner = {f"LINK{at}": port for at, (_, port) in enumerate(links)} | {"PLAINTEXT": self.port}
        outer = {f"LINK{at}": port for at, (port, _) in enumerate(links)} | {"PLAINTEXT": self.port}
        self._settings = dict(settings) | {"listeners": _addresses(inner), "advertised.listeners": _addresses(outer)}
        self.data_dir = root / "data"
        self._log = root / "node.log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def log_text(self) -> str:
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def launch(self) -> None:
        command = [str(Path(sys.executable).with_name("ottla")), "start", "--data-dir", str(self.data_dir)]
        for name, value in self._settings.items():
            command += ["--set", f"{name}={value}"]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("OTTLA_")}
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment
            )

    def start(self) -> None:
        self.launch()
        deadline = time.monotonic() + START_SECONDS_MAX
        while not self._answers():
            if not self.is_running or time.monotonic() > deadline:
                raise RuntimeError(f"the node did not start\n{self.log_text[-4000:]}")
            time.sleep(0.02)

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=5) as probe:
                probe.sendall(_API_VERSIONS)
                return len(probe.recv(10)) == 10
        except OSError:
            return False

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait(STOP_SECONDS_MAX)

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def stop(self) -> int:
        """As a service manager would; its exit code."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.kill()
            return -signal.SIGKILL

    def discard(self) -> None:
        if self.is_running:
            self.signal(signal.SIGCONT)
            self.kill()


def _addresses(ports: Mapping[str, int]) -> str:
    return ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())
