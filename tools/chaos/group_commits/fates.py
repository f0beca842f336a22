"""Who dies, and when: at a named step, or at any instant; the process itself, or the node under it."""

from __future__ import annotations

import os
import signal
import socket
import time
from dataclasses import dataclass
from itertools import product
from random import Random

from tools.chaos.group_commits.setting import Setting

DRIVER, TASK = "driver", "task"
SELF, NODE, NOBODY = "itself", "the node", "nobody"
"""Nobody: it only stands still for so long that others take it for dead, and then goes on."""
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
    """For those who die at any time; for those who stand still, how long."""

    @property
    def name(self) -> str:
        if self.victim == NOBODY:
            return f"{self.role} stands still {self.step}"
        return f"{self.victim} at {self.role} {self.step}" if self.victim == NODE else f"{self.role} {self.step}"


LONG_LIFE = Fate()
EVERY_STEP = tuple(Fate(role, step, victim) for role, victim in product(STEPS, (SELF, NODE)) for step in STEPS[role])


def draw(rng: Random, role: str) -> Fate:
    return Fate(role, AT_ANY_TIME, SELF, rng.uniform(0.001, 0.6 if role == DRIVER else 0.08))


def draw_pause(rng: Random) -> Fate:
    """Some are longer than the timeout of a transaction."""
    role = rng.choice((DRIVER, TASK))
    return Fate(role, rng.choice(STEPS[role]), NOBODY, rng.choice((0.2, 1.0, 4.0)))


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
        if fate.victim == NOBODY:
            time.sleep(fate.after_s)
            return
        if fate.victim == SELF:
            os.kill(os.getpid(), signal.SIGKILL)
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(NODE_SECONDS_MAX)
            line.connect(str(self._setting.node_killer))
            line.recv(1)  # until the node is dead
