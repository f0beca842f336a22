"""A member in another process, and what it has said: one JSON object per line of its stdout."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from .group_ledger import Place, wait_until

ROOT = Path(__file__).resolve().parents[2]
END_SECONDS_MAX = 30
Event = dict[str, Any]


class Child:
    def __init__(self, command: Sequence[str], environment: dict[str, str] | None = None) -> None:
        self.process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self.said: list[Event] = []
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.append(json.loads(line))

    def events(self, name: str) -> list[Event]:
        return [one for one in self.said if one["event"] == name]

    def seen(self, topic: str) -> list[tuple[Place, int]]:
        return [((topic, one["partition"]), one["offset"]) for one in self.events("seen")]

    def wait_for(self, name: str, is_wanted: Callable[[Event], bool] = lambda one: True) -> Event:
        wait_until(lambda: any(map(is_wanted, self.events(name))), lambda: f"no such {name} in {self.said[-20:]}")
        return next(filter(is_wanted, self.events(name)))

    def tell(self, line: str = "") -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def close(self) -> None:
        """Let it leave, which it does when its stdin ends."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert self.process.wait(END_SECONDS_MAX) == 0
        self._listener.join(END_SECONDS_MAX)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(END_SECONDS_MAX)

    def discard(self) -> None:
        self.kill()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()
