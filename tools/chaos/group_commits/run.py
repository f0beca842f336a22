"""One run: a node, a source that grows, drivers and tasks that die; in the end all is healed, drained and judged."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from confluent_kafka.admin import AdminClient, NewTopic

from ottla.base.types import TopicName, TopicPartition
from ottla.client.cluster import Cluster
from ottla.client.failures import ClientFailure
from ottla.client.group_commit import describe_group_commit
from ottla.client.offsets import Isolation, fetch_offsets, latest_offsets
from ottla.client.produce import BatchSender
from ottla.wire.batch import ProducerStamp, encode_batch, new_records
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from tools.chaos.group_commits.fates import EVERY_STEP
from tools.chaos.group_commits.judge import Found, Verdict, judge
from tools.chaos.group_commits.reading import Row, read_range
from tools.chaos.group_commits.setting import GROUP, OUTPUT, PARTITIONS, QUERY, SINK, SOUND, SOURCE, Setting, places
from tools.chaos.node import Node

ROOT = Path(__file__).resolve().parents[3]
NODE_SETTINGS = {
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "4",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
}
FINAL_SECONDS_MAX = 90.0
STABLE_SECONDS_MAX = 30.0
_TROUBLE = re.compile(r"Traceback|\[error|\[critical|AssertionError")


@dataclass(frozen=True)
class Plan:
    seed: int
    seconds: float = 120.0
    """Before all is healed; up to twice as long, if not everybody has died at every step by then."""
    rows_per_second: float = 60.0
    node_dies_every_seconds: float = 6.0
    """Besides the deaths that others wish for it."""
    crime: str = SOUND
    fates: tuple[str, ...] = ()
    """Names of those to draw from; all if none is named."""


@dataclass
class Outcome:
    plan: Plan
    verdict: Verdict
    fates: Counter[str] = field(default_factory=Counter)
    """How often each was met."""
    endings: Counter[str] = field(default_factory=Counter)
    """Of the drivers' lives."""
    events: Counter[str] = field(default_factory=Counter)
    node_deaths_and_pauses: tuple[int, int] = (0, 0)
    unmet: set[str] = field(default_factory=set)
    troubles: list[str] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        return self.verdict.is_good and not self.troubles


class NodeKiller:
    """Kills or stops the node when it thinks so, kills it when somebody calls, and brings it back."""

    def __init__(self, node: Node, door: Path, rng: Random, every_s: float) -> None:
        self.deaths = self.pauses = 0
        self.failure: RuntimeError | None = None
        self._node = node
        self._rng = rng
        self._every_s = every_s
        self._over = threading.Event()
        self._door = socket.socket(socket.AF_UNIX)
        self._door.bind(str(door))
        self._door.listen()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """The node is there when this returns."""
        self._over.set()
        self._thread.join()
        self._door.close()

    def _run(self) -> None:
        try:
            while not self._over.is_set():
                self._door.settimeout(min(1.0, self._rng.uniform(0.5, 1.5) * self._every_s))
                try:
                    caller, _ = self._door.accept()
                except TimeoutError:
                    if self._rng.random() > 1.0 / self._every_s:
                        continue
                    caller = None
                    if self._rng.random() < 0.5:
                        self._pause()
                        continue
                self._node.kill()
                self.deaths += 1
                if caller is not None:
                    caller.close()
                self._over.wait(self._rng.uniform(0.0, 0.4))
                self._node.start()
        except RuntimeError as failure:  # the node did not come back
            self.failure = failure

    def _pause(self) -> None:
        """It stands still, now and then for longer than a request may take or a transaction may be open."""
        self._node.signal(signal.SIGSTOP)
        self.pauses += 1
        self._over.wait(self._rng.choice((0.5, 2.0, 6.0)))
        self._node.signal(signal.SIGCONT)


def run(plan: Plan, directory: Path) -> Outcome:
    """Diary, checkpoints and the node's data are left in `directory`."""
    node = Node(directory, NODE_SETTINGS, ())
    node.start()
    try:
        _create_topics(node.bootstrap)
        setting = Setting(node.bootstrap, str(directory), plan.seed, plan.crime, plan.fates)
        outcome = _play(plan, setting, node)
        if node.stop() != 0:
            outcome.troubles.append("the node did not stop cleanly")
        outcome.troubles += [f"node log: {line}" for line in node.log_text.splitlines() if _TROUBLE.search(line)][:10]
        return outcome
    finally:
        node.discard()


def _create_topics(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in (SOURCE, OUTPUT)]).values():
        future.result(30)


def _play(plan: Plan, setting: Setting, node: Node) -> Outcome:
    rng = Random(plan.seed)
    stop_feeding = threading.Event()
    feeder = threading.Thread(target=lambda: asyncio.run(_feed(setting, stop_feeding, plan.rows_per_second)))
    feeder.start()
    with (setting.directory / "drivers.log").open("wb") as errors:
        supervisor = subprocess.Popen(
            [sys.executable, "-m", "tools.chaos.group_commits.supervisor", setting.as_text()],
            stdin=subprocess.PIPE,
            stderr=errors,
            cwd=ROOT,
            start_new_session=True,
        )
    troubles: list[str] = []
    killer = NodeKiller(node, setting.node_killer, rng, plan.node_dies_every_seconds)
    try:
        _wait(supervisor, plan.seconds)
        _wait(supervisor, plan.seconds, until=lambda: not _unmet(setting))
        stop_feeding.set()
        feeder.join()
        killer.end()
        with supervisor.stdin as line:  # type: ignore[union-attr]
            line.write(b"\n")
        if not _wait(supervisor, FINAL_SECONDS_MAX):
            troubles.append("the source was not drained in time")
    finally:
        stop_feeding.set()
        # Not waited for yet, so the group is ours: drivers and tasks, also those whose parents are dead.
        os.killpg(supervisor.pid, signal.SIGKILL)
        supervisor.wait()
    if supervisor.returncode != 0:
        troubles.append(f"the source was not drained: {(setting.directory / 'drivers.log').read_text()[-2000:]}")
    if killer.failure is not None:
        troubles.append(f"the node did not come back: {killer.failure}")
    verdict = judge(asyncio.run(_found(setting, troubles)))
    told = setting.told()
    return Outcome(
        plan,
        verdict,
        Counter(row["fate"] for row in told if row["event"] == "met"),
        Counter(_ending(row["code"]) for row in told if row["event"] == "life"),
        Counter(row["event"] for row in told if row["event"] in ("double", "restored", "repaired", "lost")),
        (killer.deaths, killer.pauses),
        _unmet(setting),
        troubles,
    )


def _wait(process: subprocess.Popen[bytes], seconds: float, until: Callable[[], bool] = lambda: False) -> bool:
    """Whether it has ended meanwhile. It is left to be waited for, so that its number stays its own."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and not until():
        if os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            return True
        time.sleep(0.1)
    return False


def _unmet(setting: Setting) -> set[str]:
    """Steps at which nobody has died yet."""
    wanted = set(setting.fates) or {fate.name for fate in EVERY_STEP}
    return wanted - {row["fate"] for row in setting.told() if row["event"] == "met"}


def _ending(code: int) -> str:
    names = {0: "lived on", 3: "drained", 4: "refused", 5: "tired"}
    return "killed" if code < 0 else names.get(code, f"exit code {code}")


async def _feed(setting: Setting, stop: threading.Event, rows_per_second: float) -> None:
    """The source grows; a producer that does not know what became of its rows is followed by another."""
    count, pause_s = 0, 0.1
    async with Cluster(setting.client()) as cluster:
        while not stop.is_set():
            sender = BatchSender(cluster)
            try:
                request = InitProducerIdRequest(None, 0)
                made = await (await cluster.anyone()).ask(request, cluster.deadline(5))
                sequences = dict.fromkeys(range(PARTITIONS), 0)
                while not stop.is_set():
                    for partition in range(PARTITIONS):
                        size = max(1, int(rows_per_second * pause_s / PARTITIONS))
                        records = new_records([(None, b"row %d" % (count + at)) for at in range(size)], count)
                        stamp = ProducerStamp(made.producer_id, made.producer_epoch, sequences[partition])
                        await sender.submit(TopicPartition(SOURCE, partition), encode_batch(records, producer=stamp))
                        sequences[partition] += size
                        count += size
                    await sender.flush()
                    await asyncio.sleep(pause_s)
            except ClientFailure:
                await asyncio.sleep(pause_s)
            finally:
                await sender.close()


async def _found(setting: Setting, troubles: list[str]) -> Found:
    async with Cluster(setting.client()) as cluster:
        offsets = await _when_told(cluster, troubles)
        source = await _all_of(cluster, SOURCE, troubles)
        output = await _all_of(cluster, OUTPUT, troubles)
    return Found(source, output, offsets, setting.told())


async def _when_told(cluster: Cluster, troubles: list[str]) -> dict[int, int]:
    """The offsets follow the decision."""
    deadline = cluster.deadline(STABLE_SECONDS_MAX)
    async for _ in deadline.attempts(cluster.backoff):
        if (await describe_group_commit(cluster, SINK, QUERY)).is_complete:
            break
    else:
        troubles.append("the last group commit was not told to everybody")
    return {place.partition: int(one.offset) for place, one in (await fetch_offsets(cluster, GROUP)).items()}


async def _all_of(cluster: Cluster, topic: TopicName, troubles: list[str]) -> list[Row]:
    """To the very end: every transaction is over, by its end or by its timeout."""
    wanted = list(places(topic))
    deadline = cluster.deadline(STABLE_SECONDS_MAX)
    async for _ in deadline.attempts(cluster.backoff):
        ends = await latest_offsets(cluster, wanted, Isolation.READ_UNCOMMITTED)
        if await latest_offsets(cluster, wanted) == ends:
            break
    else:
        troubles.append(f"a transaction hangs in {topic}")
        ends = await latest_offsets(cluster, wanted)
    return [row for place in wanted for row in await read_range(cluster, place, 0, ends[place])]
