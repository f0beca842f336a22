"""Who dies, and when: at a named step, or at any instant; the process itself, or the node under it."""

from __future__ import annotations

import os
import signal
import socket
from dataclasses import dataclass
from itertools import product
from random import Random

from tools.chaos.group_commits.setting import Setting

DRIVER, TASK = "driver", "task"
SELF, NODE = "itself", "the node"
STEPS = {
    DRIVER: ("begun", "planned", "written", "asked", "answered", "marked"),
    TASK: ("begun", "initialised", "submitted", "flushed", "told"),
}
"""asked: the request has been sent, and not been answered. told: the driver knows of the task's transaction."""
AT_ANY_TIME = "at any time"
NODE_SECONDS_MAX = 10.0


@dataclass(frozen=True)
class Fate:
    role: str = ""
    step: str = ""
    victim: str = SELF
    after_s: float = 0.0
    """For those who die at any time."""

    @property
    def name(self) -> str:
        return f"{self.victim} at {self.role} {self.step}" if self.victim == NODE else f"{self.role} {self.step}"


LONG_LIFE = Fate()
EVERY_STEP = tuple(Fate(role, step, victim) for role, victim in product(STEPS, (SELF, NODE)) for step in STEPS[role])


def draw(rng: Random, role: str) -> Fate:
    return Fate(role, AT_ANY_TIME, SELF, rng.uniform(0.001, 0.6 if role == DRIVER else 0.08))


class Mortal:
    """A process with a fate, which it meets once."""

    def __init__(self, role: str, fate: Fate, setting: Setting) -> None:
        self._fate = fate if fate.role == role else LONG_LIFE
        self._setting = setting
        if self._fate.step == AT_ANY_TIME:
            # The kernel ends it wherever it is, as SIGKILL would.
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_REAL, self._fate.after_s)

    def at(self, step: str) -> None:
        if self._fate.step != step:
            return
        fate, self._fate = self._fate, LONG_LIFE
        self._setting.tell("met", fate=fate.name)
        if fate.victim == SELF:
            os.kill(os.getpid(), signal.SIGKILL)
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(NODE_SECONDS_MAX)
            line.connect(str(self._setting.node_killer))
            line.recv(1)  # until the node is dead
