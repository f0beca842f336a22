"""A node in its own process, watched from outside: processor time, memory, the moment it answers."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
START_SECONDS_MAX = 60.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class NodeProcess:
    def __init__(self, directory: Path, *settings: str) -> None:
        self.directory = directory
        self.port = free_port()
        self.bootstrap = f"127.0.0.1:{self.port}"
        self._settings = settings

    def launch(self) -> float:
        """Start the command; returns the moment (monotonic) at which it was started."""
        command = [
            str(Path(sys.executable).with_name("ottla")),
            *("start", "--data-dir", str(self.directory), "--listen", self.bootstrap, "--log-level", "warning"),
            *(part for setting in self._settings for part in ("--set", setting)),
        ]
        begun = time.monotonic()
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        return begun

    def wait_until_it_listens(self) -> None:
        deadline = time.monotonic() + START_SECONDS_MAX
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                if time.monotonic() > deadline or self._process.poll() is not None:
                    raise
                time.sleep(0.002)

    @property
    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    @property
    def memory_mb(self) -> float:
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
        return int(line.split()[1]) / 1024

    def stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(60)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(60)


@contextmanager
def running(*settings: str) -> Iterator[NodeProcess]:
    with tempfile.TemporaryDirectory(prefix="ottla-bench-") as directory:
        node = NodeProcess(Path(directory), *settings)
        node.launch()
        try:
            node.wait_until_it_listens()
            yield node
        finally:
            node.kill()
