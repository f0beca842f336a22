"""The state of a run, in files of the project's storage, so that another terminal can see and steer it.

run.lock        held, as the system's file lock, as long as the run lives: a killed run lets go of it
status.json     who runs, since when, and how each flow does; replaced as a whole
paused/FLOW     somebody wants this flow paused, now and in the next run
log.jsonl       what happened, one line each
checkpoints/    Spark's, one directory a flow
"""

import fcntl
import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from ottla.spark.not_ready import NotReady

_SILENT_FOR_MS_MAX = 30_000
_LOG_BYTES_MAX = 8 * 1024 * 1024


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class Run:
    """The run that is under way, or the last one."""

    status: dict[str, Any]
    is_alive: bool

    @property
    def condition(self) -> str:
        if self.is_alive:
            silent_ms = now_ms() - int(self.status.get("heartbeat_ms", 0))
            return "running" if silent_ms < _SILENT_FOR_MS_MAX else f"not answering for {silent_ms // 1000} s"
        return "stopped" if self.status.get("ended") else "killed"

    def flow_state(self, name: str) -> str:
        """A dead run's flows do nothing, whatever the file says."""
        state = str(self.status["flows"][name]["state"])
        return state if self.is_alive or state not in ("running", "waiting") else "stopped"


class StateDirectory:
    def __init__(self, storage: Path) -> None:
        self.path = storage

    @contextmanager
    def held(self) -> Iterator[None]:
        """Only one run at a time may use the storage."""
        self._prepare()
        with (self.path / "run.lock").open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                run = self.read()
                who = f" (process {run.status['pid']} on {run.status['host']})" if run else ""
                raise NotReady(f"this pipeline is running already{who}") from None
            yield

    def is_held(self) -> bool:
        try:
            with (self.path / "run.lock").open("r") as lock:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except BlockingIOError:
            return True
        return False

    def read(self) -> Run | None:
        """None if there never was a run."""
        try:
            status = json.loads((self.path / "status.json").read_text())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as failure:
            raise NotReady(f"{self.path / 'status.json'} cannot be read: {failure}") from None
        return Run(status, self.is_held())

    def write(self, status: dict[str, Any]) -> None:
        fresh = self.path / f"status.{os.getpid()}"
        whole = {**status, "pid": os.getpid(), "host": socket.gethostname(), "heartbeat_ms": now_ms()}
        fresh.write_text(json.dumps(whole))
        fresh.replace(self.path / "status.json")

    def paused(self) -> set[str]:
        directory = self.path / "paused"
        return {unquote(mark.name) for mark in directory.iterdir()} if directory.is_dir() else set()

    def pause(self, flow: str) -> None:
        self._prepare()
        (self.path / "paused").mkdir(exist_ok=True)
        self._mark(flow).touch()

    def resume(self, flow: str) -> None:
        self._mark(flow).unlink(missing_ok=True)

    def _mark(self, flow: str) -> Path:
        return self.path / "paused" / _file_name(flow)

    def checkpoint(self, flow: str) -> Path:
        return self.path / "checkpoints" / _file_name(flow)

    def set_aside(self, flow: str) -> Path | None:
        """Move the checkpoint away, so that the flow begins anew; where it is now, or None if there was none."""
        checkpoint = self.checkpoint(flow)
        if not checkpoint.exists():
            return None
        aside = self.path / "set-aside" / f"{checkpoint.name}.{now_ms()}"
        aside.parent.mkdir(exist_ok=True)
        checkpoint.rename(aside)
        return aside

    def log(self, flow: str, event: str, text: str = "") -> dict[str, Any]:
        """One line; the file before is kept once the log has grown."""
        entry = {"time_ms": now_ms(), "flow": flow, "event": event, "text": text}
        path = self.path / "log.jsonl"
        if path.exists() and path.stat().st_size > _LOG_BYTES_MAX:
            path.replace(self.path / "log.1.jsonl")
        with path.open("a", encoding="utf-8") as log:
            log.write(json.dumps(entry, ensure_ascii=False) + "\n")
        return entry

    def entries(self, follow: bool = False) -> Iterator[dict[str, Any] | None]:
        """What was logged; with `follow` for ever, None whenever there is nothing new for now."""
        for entry in _whole_lines(self.path / "log.1.jsonl", 0):
            del entry["next"]
            yield entry
        path, position = self.path / "log.jsonl", 0
        while True:
            if path.exists() and path.stat().st_size < position:
                position = 0  # a new file has been begun
            for entry in _whole_lines(path, position):
                position = entry.pop("next")
                yield entry
            if not follow:
                return
            yield None

    def _prepare(self) -> None:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as failure:
            raise NotReady(f"cannot make the storage {self.path}: {failure.strerror}") from None


def _file_name(flow: str) -> str:
    return quote(flow, safe="")


def _whole_lines(path: Path, position: int) -> Iterator[dict[str, Any]]:
    """The entries from this position on, each with the position behind it."""
    if not path.exists():
        return
    with path.open("rb") as log:
        log.seek(position)
        for line in log:
            if not line.endswith(b"\n"):
                return  # it is being written
            position += len(line)
            yield {**json.loads(line), "next": position}
