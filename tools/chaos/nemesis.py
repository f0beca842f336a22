"""Faults: begun at random moments by a seed, each ended after a while, several at a time."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random

from tools.chaos.node import Node
from tools.chaos.proxy import Link, Network
from tools.chaos.worker import Recorder, Worker, in_threads
from tools.chaos.workload import SECOND_PROTOCOL


@dataclass
class Scene:
    """What there is to break."""

    node: Node
    network: Network
    workers: list[Worker]
    recorder: Recorder
    rng: Random


@contextmanager
def kill(scene: Scene) -> Iterator[float]:
    """SIGKILL; it comes back soon, and sometimes dies again while it starts."""
    scene.node.kill()
    if scene.rng.random() < 0.25:
        scene.node.launch()
        time.sleep(scene.rng.random() * 0.8)
        scene.node.kill()
    try:
        yield scene.rng.uniform(0.0, 2.0)
    finally:
        scene.node.start()


@contextmanager
def stop(scene: Scene) -> Iterator[float]:
    """A clean end and a start."""
    scene.node.stop()
    try:
        yield scene.rng.uniform(0.0, 1.0)
    finally:
        scene.node.start()


@contextmanager
def pause(scene: Scene) -> Iterator[float]:
    """SIGSTOP: longer than a request, or even a session, may last."""
    scene.node.signal(signal.SIGSTOP)
    try:
        yield scene.rng.choice((0.5, 2.0, 5.0, 8.0))
    finally:
        scene.node.signal(signal.SIGCONT)


@contextmanager
def crash(scene: Scene) -> Iterator[float]:
    """SIGKILL of clients."""
    for worker in scene.rng.sample(scene.workers, scene.rng.randint(1, max(1, len(scene.workers) // 3))):
        worker.crash()
    yield 0.0


@contextmanager
def freeze(scene: Scene) -> Iterator[float]:
    """SIGSTOP of clients: they have successors when they go on, which is for two seconds."""
    frozen = scene.rng.sample(scene.workers, scene.rng.randint(1, max(1, len(scene.workers) // 4)))
    for worker in frozen:
        worker.freeze()
    try:
        yield scene.rng.choice((1.0, 3.0, 8.0))
    finally:
        for thread in in_threads(Worker.thaw, frozen):
            thread.join()


@contextmanager
def delay(scene: Scene) -> Iterator[float]:
    links = _some(scene)
    for link in links:
        scene.network.delay(link, scene.rng.choice((0.01, 0.1, 0.6)))
    yield from _healing(scene, links, 4.0)


@contextmanager
def hold(scene: Scene) -> Iterator[float]:
    """Nothing arrives; later all of it does, even if its sender has given it up."""
    links = _some(scene)
    for link in links:
        scene.network.hold(link)
    yield from _healing(scene, links, scene.rng.choice((1.0, 3.0, 6.0)))


@contextmanager
def strand(scene: Scene) -> Iterator[float]:
    """What is under way arrives when its sender has long sent it again elsewhere, and gone on to other things.

    The classic protocol of transactions cannot tell such a request from one of the next transaction, with any broker
    (see docs/transactions.md). So this befalls only clients of the second.
    """
    pairs = zip(scene.network.links, scene.workers, strict=True)
    links = [link for link, worker in pairs if worker.role.library in SECOND_PROTOCOL]
    for link in links:
        scene.network.strand(link)
    yield from _healing(scene, links, 7.0 if links else 0.0)


@contextmanager
def crumble(scene: Scene) -> Iterator[float]:
    links = _some(scene)
    for link in links:
        scene.network.crumble(link)
    yield from _healing(scene, links, 3.0)


@contextmanager
def cut(scene: Scene) -> Iterator[float]:
    for _ in range(scene.rng.randint(1, 4)):
        for link in _some(scene):
            scene.network.cut(link)
        time.sleep(scene.rng.random() * 0.3)
    yield 0.0


@contextmanager
def half_close(scene: Scene) -> Iterator[float]:
    for link in _some(scene):
        scene.network.half_close(link, towards_node=scene.rng.random() < 0.5)
    yield 0.0


def _some(scene: Scene) -> list[Link]:
    return scene.rng.sample(scene.network.links, scene.rng.randint(1, len(scene.network.links)))


def _healing(scene: Scene, links: list[Link], seconds: float) -> Iterator[float]:
    try:
        yield seconds
    finally:
        for link in links:
            scene.network.heal(link)


Fault = Callable[[Scene], "contextmanager[float]"]  # type: ignore[valid-type]
FAULTS = {
    "kill": kill,
    "stop": stop,
    "pause": pause,
    "crash": crash,
    "freeze": freeze,
    "delay": delay,
    "hold": hold,
    "strand": strand,
    "crumble": crumble,
    "cut": cut,
    "half-close": half_close,
}
OF_THE_NODE = frozenset({"kill", "stop", "pause"})
"""Only one of these at a time."""


class Nemesis:
    """Two hands: one for the node, one for the network and the clients."""

    def __init__(self, scene: Scene, faults: list[str], every_seconds: float) -> None:
        self._scene = scene
        self._every_seconds = every_seconds
        self._over = threading.Event()
        self.counts = dict.fromkeys(faults, 0)
        self.failure: BaseException | None = None
        hands = [[name for name in faults if (name in OF_THE_NODE) is is_node] for is_node in (True, False)]
        self._threads = [
            threading.Thread(target=self._run, args=(hand, Random(scene.rng.randrange(1 << 32))), daemon=True)
            for hand in hands
            if hand
        ]

    def begin(self) -> None:
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        """All is whole again when this returns."""
        self._over.set()
        for thread in self._threads:
            thread.join()
        if self.failure is not None:
            raise self.failure

    def _run(self, names: list[str], rng: Random) -> None:
        try:
            while not self._over.wait(rng.uniform(0.5, 1.5) * self._every_seconds):
                name = rng.choice(names)
                self._scene.recorder.tell(fault=name, phase="begin")
                with FAULTS[name](self._scene) as seconds:
                    self._over.wait(seconds)
                self._scene.recorder.tell(fault=name, phase="end")
                self.counts[name] += 1
        except (RuntimeError, OSError) as failure:  # the node did not come back
            self.failure = failure
