"""The power goes: what was synced is there, on a copy of the disk taken in one instant.

The data directory is an ext4 image on an xfs with reflinks: `cp --reflink` copies the image as it is at that moment,
while the page cache of the file system in it is left behind. What is not yet on that disk is lost, as it would be.
"""

from __future__ import annotations

import random
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from .client import Client
from .faults import needs_root
from .ledger import Ledger
from .load import Load, Manner, Writer, check_partition
from .node import NodeProcess
from .test_kill import ROUNDS, SEED

TOOLS = ("mkfs.xfs", "mkfs.ext4", "fsck.ext4", "losetup")
CUTS = max(3, ROUNDS // 3)
TOPIC, PARTITIONS = "synced", 2


def run(*command: str | Path, ok: tuple[int, ...] = (0,)) -> None:
    done = subprocess.run([str(part) for part in command], capture_output=True, timeout=60)
    if done.returncode not in ok:
        raise OSError(f"{command}: {done.stderr.decode().strip()}")


@contextmanager
def mounted(image: Path, at: Path) -> Iterator[Path]:
    at.mkdir(parents=True, exist_ok=True)
    run("mount", "-o", "loop", image, at)
    try:
        yield at
    finally:
        run("umount", "-l", at)


class Machine:
    """A disk whose power can be cut, as often as one likes."""

    def __init__(self, root: Path, stack: ExitStack) -> None:
        outer = root / "outer.img"
        run("truncate", "-s", "900M", outer)
        run("mkfs.xfs", "-q", "-m", "reflink=1", outer)
        self.shelf = stack.enter_context(mounted(outer, root / "shelf"))
        self._image = self.shelf / "disk.img"
        run("truncate", "-s", "200M", self._image)
        run("mkfs.ext4", "-q", self._image)
        self.disk = stack.enter_context(mounted(self._image, root / "disk"))
        self._root = root
        self._cuts = 0

    @contextmanager
    def cut(self) -> Iterator[Path]:
        """The disk as it would be found now, mounted after the journal has been replayed."""
        self._cuts += 1
        copy = self.shelf / f"cut-{self._cuts}.img"
        run("cp", "--reflink=always", self._image, copy)
        yield copy
        copy.unlink()

    @contextmanager
    def found(self, copy: Path) -> Iterator[Path]:
        run("fsck.ext4", "-p", copy, ok=(0, 1))
        with mounted(copy, self._root / copy.stem) as path:
            yield path


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    needs_root()
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"needs {', '.join(missing)}")
    with ExitStack() as stack:
        try:
            machine = Machine(tmp_path, stack)
        except OSError as failure:
            pytest.skip(f"no such disks here: {failure}")
        yield machine


@pytest.fixture
def node(machine: Machine, tmp_path: Path) -> Iterator[NodeProcess]:
    node = NodeProcess(tmp_path / "node", data_dirs=[machine.disk / "data"])
    node.start()
    with Client(node.port) as client:
        client.create_topic(TOPIC, PARTITIONS, {"flush.messages": "1", "segment.bytes": str(1 << 20)})
    yield node
    node.discard()


def _promises(ledgers: list[Ledger]) -> list[Ledger]:
    """What has been acknowledged so far; more may be on the disk."""
    return [Ledger(one.name, acked=dict(one.acked), numbers_sent=one.numbers_sent) for one in ledgers]


@pytest.mark.timeout(120 + 20 * CUTS)
def test_synced_records_and_answered_changes_survive_a_power_cut(
    machine: Machine, node: NodeProcess, tmp_path: Path
) -> None:
    print(f"OTTLA_CRASH_SEED={SEED}")
    rng = random.Random(SEED)
    ledgers = [Ledger(f"{TOPIC}-{partition}") for partition in range(PARTITIONS)]
    manner = Manner(window=4, value_bytes_max=4_000)
    load = Load(node, [Writer(p, TOPIC, p, ledger, manner, SEED + p) for p, ledger in enumerate(ledgers)])
    created: list[str] = []
    for number in range(CUTS):
        load.begin()
        load.wait_for_progress(10)
        with Client(node.port) as client:
            client.create_topic(f"topic-{number}", 2)
            created.append(f"topic-{number}")
        time.sleep(rng.random() * 0.3)
        promised, topics = _promises(ledgers), set(created)
        with machine.cut() as copy:
            load.end()
            with machine.found(copy) as disk:
                _check_copy(NodeProcess(tmp_path / f"copy-{number}", data_dirs=[disk / "data"]), promised, topics)
    print("acknowledged", [len(ledger.acked) for ledger in ledgers])


def _check_copy(copy: NodeProcess, promised: list[Ledger], topics: set[str]) -> None:
    try:
        copy.start()
        with Client(copy.port) as client:
            assert set(client.topics()) >= topics
            for partition, ledger in enumerate(promised):
                check_partition(client, TOPIC, partition, ledger)
        assert copy.stop() == 0
    finally:
        copy.discard()


def test_the_power_cut_is_one(machine: Machine, node: NodeProcess, tmp_path: Path) -> None:
    """Without syncs the same check finds records lost: the copy does not see the page cache."""
    ledger = Ledger("lazy-0")
    with Client(node.port) as client:
        client.create_topic("lazy", 1)
    load = Load(node, [Writer(0, "lazy", 0, ledger, Manner(value_bytes_max=4_000), SEED)])
    load.begin()
    load.wait_for_progress(30)
    promised = _promises([ledger])[0]
    with machine.cut() as copy:
        load.end()
        with machine.found(copy) as disk:
            other = NodeProcess(tmp_path / "copy", data_dirs=[disk / "data"])
            other.start()
            with Client(other.port) as client, pytest.raises(AssertionError, match="lost"):
                check_partition(client, "lazy", 0, promised)
            other.discard()
