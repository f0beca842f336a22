"""One run: a node, clients, faults, a final phase; then the judge."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tools.chaos.checker import Promises, Verdict, check
from tools.chaos.client_port import Settings
from tools.chaos.history import Function, Key
from tools.chaos.history import Outcome as Result
from tools.chaos.nemesis import FAULTS, Nemesis, Scene
from tools.chaos.node import Node, free_ports
from tools.chaos.payload import split_key
from tools.chaos.proxy import Network
from tools.chaos.worker import Pace, Recorder, Worker, in_threads
from tools.chaos.workload import MESSAGE_BYTES_MAX, ROLES, TRANSACTIONAL_ROLES, Role, Workload, topics

NODE_SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.session.timeout.ms": "1000",
    "message.max.bytes": str(MESSAGE_BYTES_MAX),
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "auto.create.topics.enable": "false",
}
PROGRESS_SECONDS_MAX = 45.0
"""After all is healed: so long somebody may still wait for what was lost before, and be replaced by a successor."""
_TROUBLE = re.compile(r"Traceback|\[error|\[critical|AssertionError")


@dataclass(frozen=True)
class Plan:
    seed: int
    seconds: float = 180.0
    clients: int = 5
    """Without transactions."""
    transactors: int = 9
    """Clients with transactions."""
    ops_per_second: float = 60.0
    partitions: int = 4
    """Of each topic."""
    faults: tuple[str, ...] = tuple(FAULTS)
    fault_every_seconds: float = 4.0
    settle_seconds: float = 8.0
    final_seconds_max: float = 120.0
    is_safe: bool = True
    """Of the clients without transactions; the others have no choice."""
    cast: tuple[Role, ...] = ()
    """These clients and no others, however many of each kind are asked for."""

    def roles(self) -> list[Role]:
        if self.cast:
            return list(self.cast)
        plain = [ROLES[at % len(ROLES)] for at in range(self.clients)]
        return plain + [TRANSACTIONAL_ROLES[at % len(TRANSACTIONAL_ROLES)] for at in range(self.transactors)]


@dataclass
class Outcome:
    plan: Plan
    verdict: Verdict
    faults: dict[str, int] = field(default_factory=dict)
    troubles: list[str] = field(default_factory=list)
    """What went wrong besides the records."""
    crashes: int = 0
    replacements: int = 0

    @property
    def is_good(self) -> bool:
        return self.verdict.is_valid and not self.troubles


def run(plan: Plan, directory: Path) -> Outcome:
    """The history is left in `directory`."""
    with (directory / "history.jsonl").open("w") as file, (directory / "clients.log").open("w") as errors:
        recorder = Recorder(file, errors)
        recorder.tell(plan={"seed": plan.seed, "faults": plan.faults, "is_safe": plan.is_safe})
        with _scene(plan, directory, recorder) as scene:
            nemesis = Nemesis(scene, list(plan.faults), plan.fault_every_seconds)
            troubles = _play(plan, scene, nemesis)
            if scene.node.stop() != 0:
                troubles.append("the node did not stop cleanly")
            troubles += [f"node log: {line}" for line in scene.node.log_text.splitlines() if _TROUBLE.search(line)][:10]
    promises = Promises(is_idempotent=plan.is_safe)
    crashes = sum(worker.crashes for worker in scene.workers)
    replacements = sum(worker.replacements for worker in scene.workers)
    return Outcome(plan, check(recorder.snapshot(), promises), nemesis.counts, troubles, crashes, replacements)


@contextmanager
def _scene(plan: Plan, directory: Path, recorder: Recorder) -> Iterator[Scene]:
    rng = Random(plan.seed)
    roles = plan.roles()
    ports = free_ports(2 * len(roles))
    links = list(zip(ports[::2], ports[1::2], strict=True))
    node = Node(directory, NODE_SETTINGS, links)
    network = Network()
    workload = Workload(Random(rng.randrange(1 << 32)), plan.partitions)
    workers = []
    for at, ((outer, inner), role) in enumerate(zip(links, roles, strict=True)):
        network.add_link(outer, inner)
        workers.append(Worker(role, _settings(plan, role, at, outer), workload, recorder))
    try:
        node.start()
        _create_topics(node.bootstrap, plan.partitions)
        yield Scene(node, network, workers, recorder, rng)
    finally:
        for worker in workers:
            worker.close()
        node.discard()
        network.close()


def _settings(plan: Plan, role: Role, at: int, port: int) -> Settings:
    return Settings(
        f"127.0.0.1:{port}",
        role.library,
        f"{role.group}-{at if role.group == 'alone' else 0}",
        is_safe=plan.is_safe or role.is_transactional,
        protocol=role.protocol,
        compression=role.compression,
        linger_ms=(0, 5)[at % 2],
        transactional_id=f"transactor-{at}" if role.is_transactional else "",
    )


def _create_topics(bootstrap: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    wanted = [NewTopic(name, partitions, 1, config=config) for name, config in topics().items()]
    for future in admin.create_topics(wanted).values():
        future.result(30)


def _play(plan: Plan, scene: Scene, nemesis: Nemesis) -> list[str]:
    """Returns what went wrong."""
    over = threading.Event()
    pace = plan.ops_per_second / len(scene.workers)
    paces = {worker: Pace(Random(scene.rng.randrange(1 << 32)), pace) for worker in scene.workers}
    threads = in_threads(lambda worker: worker.run(over, paces[worker]), scene.workers)
    nemesis.begin()
    time.sleep(plan.seconds)
    nemesis.end()
    scene.recorder.tell(phase="healed")
    healed_ns = time.monotonic_ns()
    time.sleep(plan.settle_seconds)
    deadline = time.monotonic() + PROGRESS_SECONDS_MAX - plan.settle_seconds
    while _without_progress(scene, healed_ns) and time.monotonic() < deadline:
        time.sleep(0.5)
    troubles = _without_progress(scene, healed_ns)
    over.set()
    for thread in threads:
        thread.join()
    scene.recorder.tell(phase="final")
    troubles += _read_all(scene, time.monotonic() + plan.final_seconds_max)
    _ask_for_offsets(scene)
    return troubles


def _without_progress(scene: Scene, since_ns: int) -> list[str]:
    """Clients for whom nothing has succeeded since all was healed."""
    served = {op.process for op in scene.recorder.snapshot() if op.is_ok and (op.ended_ns or 0) > since_ns}
    return [
        f"client {worker.process} ({worker.role}) did nothing after all was healed"
        for worker in scene.workers
        if worker.process not in served
    ]


def _read_all(scene: Scene, deadline: float) -> list[str]:
    results: dict[Worker, bool] = {}
    threads = in_threads(lambda worker: results.__setitem__(worker, worker.read_everything(deadline)), scene.workers)
    for thread in threads:
        thread.join()
    return [
        f"client {worker.process} ({worker.role}) did not reach the end"
        for worker in scene.workers
        if not results[worker]
    ]


def _ask_for_offsets(scene: Scene) -> None:
    """How far the groups have got that copy. Nobody copies any more, so the copies that were read are all."""
    keys: dict[Key, int | None] = {}
    for worker in scene.workers:
        if worker.role.source:
            keys |= _committed(scene.node.bootstrap, worker.settings.group, worker.source_keys())
    if keys:
        op = scene.recorder.begin(scene.recorder.new_process(), {"f": Function.OFFSETS})
        op.keys, op.outcome = keys, Result.OK
        scene.recorder.end(op)


def _committed(bootstrap: str, group: str, keys: list[Key]) -> dict[Key, int]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "isolation.level": "read_committed"})
    try:
        found = consumer.committed([TopicPartition(*split_key(key)) for key in keys], timeout=30)
    finally:
        consumer.close()
    return {f"{one.topic}/{one.partition}": max(one.offset, 0) for one in found}
