"""Disks that fail: small ones, read-only ones, and system calls that strace makes fail in a running node."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

ATTACH_SECONDS_MAX = 20.0


def needs_root() -> None:
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")


@contextmanager
def small_disk(path: Path, size: str) -> Iterator[Path]:
    """A tmpfs of this size; skips where it cannot be mounted."""
    needs_root()
    path.mkdir(parents=True, exist_ok=True)
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path)], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"cannot mount a tmpfs: {mounted.stderr.decode().strip()}")
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)


def remount(path: Path, option: str) -> None:
    """With another option: `size=40m`; `ro`, which the kernel refuses while a file there is open for writing."""
    subprocess.run(["mount", "-o", f"remount,{option}", str(path)], check=True, capture_output=True)


class Trace:
    """strace on a running process, which it leaves as it was."""

    def __init__(self, pid: int, output: Path, *arguments: str) -> None:
        self._output = output
        self._process = subprocess.Popen(
            ["strace", "-f", "-y", "-o", str(output), *arguments, "-p", str(pid)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        self._wait_attached(pid)

    def _wait_attached(self, pid: int) -> None:
        """It says so when it has stopped every thread; from then on no call gets past it."""
        stderr = self._process.stderr
        assert stderr is not None
        os.set_blocking(stderr.fileno(), False)
        said = b""
        deadline = time.monotonic() + ATTACH_SECONDS_MAX
        while b" attached" not in said or not all(
            _tracer(task) == self._process.pid for task in Path(f"/proc/{pid}/task").iterdir()
        ):
            said += stderr.read() or b""
            if self._process.poll() is not None:
                pytest.skip(f"strace cannot attach: {said.decode().strip()}")
            assert time.monotonic() < deadline, f"strace does not attach: {said.decode().strip()}"
            time.sleep(0.01)

    @property
    def lines(self) -> list[str]:
        return self._output.read_text(errors="replace").splitlines()

    def end(self) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(ATTACH_SECONDS_MAX)


def _tracer(task: Path) -> int:
    with suppress(OSError):
        for line in (task / "status").read_text().splitlines():
            if line.startswith("TracerPid:"):
                return int(line.split()[1])
    return 0


@contextmanager
def traced(pid: int, output: Path, *arguments: str) -> Iterator[Trace]:
    if shutil.which("strace") is None:
        pytest.skip("needs strace")
    trace = Trace(pid, output, *arguments)
    try:
        yield trace
    finally:
        trace.end()
