"""The metadata log after a crash: what was answered is found again; what cannot be trusted stops the start."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from .client import Client
from .damage import BESIDE_DAMAGES, INDEX_DAMAGES, LOG_DAMAGES, Damage
from .node import DidNotStart, NodeProcess
from .segments import sound_prefix
from .test_kill import SEED

METADATA = "__cluster_metadata-0"
TOPICS = {f"topic-{number}": 1 + number % 3 for number in range(20)}
BEHIND_THE_END = {name: LOG_DAMAGES[name] for name in LOG_DAMAGES if name.endswith("behind the end")}
SNAPSHOT = f"{0:020d}-{0:010d}.checkpoint"


def _left_over(*names: str) -> Damage:
    def damage(directory: Path, rng: random.Random) -> None:
        for name in names:
            (directory / name).write_bytes(rng.randbytes(200))

    return damage


def _remove(name: str) -> Damage:
    return lambda directory, rng: (directory / name).unlink()


def _scramble(name: str) -> Damage:
    return lambda directory, rng: _rewrite(directory / name, rng.randbytes(150))


def _empty(name: str) -> Damage:
    return lambda directory, rng: _rewrite(directory / name, b"")


def _rewrite(path: Path, data: bytes) -> None:
    path.write_bytes(data)


HARMLESS: dict[str, Damage] = {
    **BEHIND_THE_END,
    **INDEX_DAMAGES,
    **{name: BESIDE_DAMAGES[name] for name in BESIDE_DAMAGES if "topic id" not in name and "compact" not in name},
    "a snapshot being written": _left_over(
        f"{7:020d}-{1:010d}.checkpoint.part", f"{3:020d}-{1:010d}.checkpoint.deleted"
    ),
    "a vote being written": _left_over("quorum-state.tmp"),
    "the vote removed": _remove("quorum-state"),
}
FATAL: dict[str, Damage] = {
    "the vote scrambled": _scramble("quorum-state"),
    "the vote emptied": _empty("quorum-state"),
    "the snapshot scrambled": _scramble(SNAPSHOT),
    "the snapshot emptied": _empty(SNAPSHOT),
    "the identity scrambled": _scramble("../meta.properties"),
    "the identity emptied": _empty("../meta.properties"),
}


@pytest.fixture(scope="module")
def killed(shared_scratch: Path) -> Path:
    """A data directory with topics, as SIGKILL left it."""
    node = NodeProcess(shared_scratch)
    node.start()
    with Client(node.port) as client:
        for name, partitions in TOPICS.items():
            client.create_topic(name, partitions, {"retention.ms": "1000000"})
    node.kill()
    return node.data_dir


@pytest.fixture
def node(scratch: Path, killed: Path) -> Iterator[NodeProcess]:
    node = NodeProcess(scratch)
    shutil.copytree(killed, node.data_dir)
    yield node
    node.discard()


def partitions_on_disk(node: NodeProcess) -> list[str]:
    return sorted(path.name for path in node.data_dir.glob("topic-*"))


def test_every_answered_change_is_in_the_log_at_once(node: NodeProcess) -> None:
    """The kill came right behind the last answer."""
    assert sound_prefix(node.data_dir / METADATA)
    node.start()
    with Client(node.port) as client:
        assert client.topics() == TOPICS


@pytest.mark.parametrize("names", [sorted(HARMLESS)[part::4] for part in range(4)], ids=str)
def test_what_a_crash_leaves_beside_the_metadata_does_no_harm(node: NodeProcess, names: list[str]) -> None:
    """Several at once, and then each other's restart."""
    rng = random.Random(SEED)
    for name in names:
        HARMLESS[name](node.data_dir / METADATA, rng)
        node.start()
        with Client(node.port) as client:
            assert client.topics() == TOPICS, name
            assert client.config("topic-3", "retention.ms") == "1000000", name
        node.kill()
    assert partitions_on_disk(node) == sorted(f"{name}-{p}" for name, count in TOPICS.items() for p in range(count))


@pytest.mark.parametrize("damage", FATAL)
def test_metadata_that_cannot_be_trusted_stops_the_start_in_one_line(node: NodeProcess, damage: str) -> None:
    """And nothing is written meanwhile: with the file put back, all is there."""
    directory = node.data_dir / METADATA
    kept = node.data_dir.with_name("kept")
    shutil.copytree(node.data_dir, kept)
    FATAL[damage](directory, random.Random(SEED))
    with pytest.raises(DidNotStart):
        node.start()
    assert node.exit_code == 1
    assert "Traceback" not in node.log_text
    assert node.log_text.strip().splitlines()[-1].startswith("ottla: ")
    for name in ("quorum-state", SNAPSHOT, "../meta.properties"):
        shutil.copy(kept / METADATA / name, directory / name)
    node.start()
    with Client(node.port) as client:
        assert client.topics() == TOPICS
    assert partitions_on_disk(node) == sorted(f"{name}-{p}" for name, count in TOPICS.items() for p in range(count))


@pytest.mark.parametrize("name", ["a flipped bit", "a wrong length", "cut between batches"])
def test_damage_within_the_metadata_log_destroys_no_partition(node: NodeProcess, name: str) -> None:
    """Not a crash's doing, since all of it was synced. Whatever becomes of it, files are set aside, not deleted."""
    before = {path.name for path in node.data_dir.glob("topic-*")}
    LOG_DAMAGES[name](node.data_dir / METADATA, random.Random(SEED))
    _start_or_refuse(node)
    after = {path.name.partition(".")[0] for path in node.data_dir.glob("topic-*") if not path.name.endswith("-delete")}
    assert after == before


def _start_or_refuse(node: NodeProcess) -> None:
    try:
        node.start()
    except DidNotStart:
        assert node.exit_code == 1 and "Traceback" not in node.log_text
