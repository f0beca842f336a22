"""Files as a crash may leave them: the node serves every sound record up to the first bad one, and goes on there."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from ottla.wire.batch import ProducerStamp, encode_batch, iter_headers, new_records, read_header

from .client import EARLIEST, LATEST, Client
from .damage import BESIDE_DAMAGES, CHECKPOINTS, FILE_DAMAGES, INDEX_DAMAGES, LOG_DAMAGES, Damage
from .ledger import Stamp, sealed_value
from .node import NodeProcess
from .segments import sound_prefix
from .test_kill import SEED

TOPIC = "damaged"
BATCHES, RECORDS, VALUE_BYTES = 28, 9, 8_000
TIMESTAMP = 1_700_000_000_000
ALL_DAMAGES = {**LOG_DAMAGES, **INDEX_DAMAGES, **BESIDE_DAMAGES}
PARTITION_OF = {name: partition for partition, name in enumerate(ALL_DAMAGES)}


class Template(NamedTuple):
    killed: Path
    stopped: Path


@pytest.fixture(scope="module")
def template(shared_scratch: Path) -> Template:
    """A data directory as SIGKILL left it, and the same after a clean stop: a partition for each damage."""
    node = NodeProcess(shared_scratch)
    node.start()
    with Client(node.port) as client:
        client.create_topic(TOPIC, len(ALL_DAMAGES), {"segment.bytes": str(1 << 20), "retention.ms": "-1"})
        producer_id = client.new_producer_id()
        for partition in range(len(ALL_DAMAGES)):
            for number in range(BATCHES):
                client.produce(TOPIC, partition, _batch(number, producer_id), acks=1)
    node.kill()
    killed = shared_scratch / "killed"
    shutil.copytree(node.data_dir, killed)
    node.start()
    assert node.stop() == 0
    return Template(killed, node.data_dir)


@pytest.fixture
def node(scratch: Path) -> Iterator[NodeProcess]:
    node = NodeProcess(scratch)
    yield node
    node.discard()


def _batch(number: int, producer_id: int = -1) -> bytes:
    stamps = [Stamp(1, number * RECORDS + at) for at in range(RECORDS)]
    records = new_records([(None, sealed_value(stamp, VALUE_BYTES)) for stamp in stamps], TIMESTAMP + number)
    producer = ProducerStamp(producer_id, 0, number * RECORDS) if producer_id >= 0 else ProducerStamp()
    return encode_batch(records, producer=producer)


def content(client: Client, partition: int) -> list[bytes]:
    return [bytes(batch) for batch in client.batches(TOPIC, partition)]


def _check_lookups(client: Client, partition: int, expected: list[bytes], rng: random.Random) -> None:
    """The indexes lead to the right places."""
    for batch in rng.sample(expected, min(4, len(expected))):
        header = read_header(batch)
        offset = rng.randrange(header.base_offset, header.next_offset)
        records = memoryview(client.fetch(TOPIC, partition, offset).records)  # type: ignore[arg-type]
        assert next(iter_headers(records))[1].base_offset == header.base_offset
        assert client.list_offset(TOPIC, partition, header.max_timestamp) == header.base_offset


def _append_and_look(client: Client, partition: int, end: int) -> None:
    batch = encode_batch(new_records([(None, b"after")], TIMESTAMP + 10**6))
    assert client.produce(TOPIC, partition, batch) == end
    assert client.list_offset(TOPIC, partition, LATEST) == end + 1


def _damage_all(data_dir: Path, rng: random.Random, damages: dict[str, Damage]) -> dict[str, list[bytes]]:
    """A partition for each damage; what the log has to be afterwards."""
    expected = {}
    for partition, (name, damage) in enumerate(ALL_DAMAGES.items()):
        path = data_dir / f"{TOPIC}-{partition}"
        whole = sound_prefix(path)
        assert len(whole) == BATCHES
        if name in damages:
            damage(path, rng)
        expected[name] = sound_prefix(path) if name in LOG_DAMAGES else whole
    return expected


def _check_all(node: NodeProcess, expected: dict[str, list[bytes]], rng: random.Random) -> None:
    with Client(node.port) as client:
        for name, batches in expected.items():
            partition = PARTITION_OF[name]
            end = read_header(batches[-1]).next_offset if batches else 0
            assert client.list_offset(TOPIC, partition, EARLIEST) == 0, name
            assert client.list_offset(TOPIC, partition, LATEST) == end, name
            assert content(client, partition) == batches, name
            _check_lookups(client, partition, batches, rng)


@pytest.mark.parametrize("turn", range(2))
def test_after_a_kill_every_log_ends_where_its_first_bad_batch_begins(
    node: NodeProcess, template: Template, turn: int
) -> None:
    print(f"OTTLA_CRASH_SEED={SEED}")
    rng = random.Random(SEED + turn)
    shutil.copytree(template.killed, node.data_dir)
    expected = _damage_all(node.data_dir, rng, ALL_DAMAGES)
    assert any(len(batches) < BATCHES for batches in expected.values())
    node.start()
    _check_all(node, expected, rng)
    with Client(node.port) as client:
        for partition, batches in enumerate(expected.values()):
            _append_and_look(client, partition, read_header(batches[-1]).next_offset if batches else 0)
    node.kill()
    node.start()
    with Client(node.port) as client:
        for partition, (name, batches) in enumerate(expected.items()):
            assert content(client, partition)[:-1] == batches, name


def test_after_a_clean_stop_nothing_is_recovered_and_indexes_are_trusted(node: NodeProcess, template: Template) -> None:
    """A damage that only a crash could explain is not looked for: the flipped bit is served as it is."""
    print(f"OTTLA_CRASH_SEED={SEED}")
    rng = random.Random(SEED)
    shutil.copytree(template.stopped, node.data_dir)
    harmless = {**BESIDE_DAMAGES, "index removed": INDEX_DAMAGES["index removed"]}
    expected = _damage_all(node.data_dir, rng, harmless)
    flipped = node.data_dir / f"{TOPIC}-{PARTITION_OF['a flipped bit']}" / f"{0:020d}.log"
    _flip(flipped, flipped.stat().st_size // 2)
    del expected["a flipped bit"]
    node.start()
    with Client(node.port) as client:
        served = bytes(client.fetch(TOPIC, PARTITION_OF["a flipped bit"], 0).records)  # type: ignore[arg-type]
    assert served == flipped.read_bytes()
    _check_all(node, expected, rng)


def _flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def test_a_log_that_ends_in_half_a_batch_in_spite_of_the_clean_marker_is_cut(
    node: NodeProcess, template: Template
) -> None:
    rng = random.Random(SEED)
    shutil.copytree(template.stopped, node.data_dir)
    cuts = {name: LOG_DAMAGES[name] for name in LOG_DAMAGES if name.endswith("behind the end") and "old" not in name}
    expected = _damage_all(node.data_dir, rng, cuts)
    node.start()
    _check_all(node, expected, rng)


@pytest.mark.parametrize("damage", FILE_DAMAGES)
@pytest.mark.parametrize("was_clean", [True, False], ids=["stopped", "killed"])
def test_checkpoints_may_be_lost_or_damaged(
    node: NodeProcess, template: Template, damage: str, was_clean: bool
) -> None:
    """All of them at once. What they said is found out anew."""
    rng = random.Random(SEED)
    shutil.copytree(template.stopped if was_clean else template.killed, node.data_dir)
    for name in CHECKPOINTS:
        path = node.data_dir / name
        if path.exists():
            FILE_DAMAGES[damage](path, rng)
        (node.data_dir / f"{name}.tmp").write_bytes(b"0\n3\ndamaged 0")
    node.start()
    _check_all(node, {name: sound_prefix(node.data_dir / f"{TOPIC}-{p}") for p, name in enumerate(ALL_DAMAGES)}, rng)


def test_a_recovery_point_behind_the_end_of_the_log_loses_nothing(node: NodeProcess, template: Template) -> None:
    shutil.copytree(template.killed, node.data_dir)
    lines = [f"{TOPIC} {partition} {10**9}" for partition in range(len(ALL_DAMAGES))]
    (node.data_dir / CHECKPOINTS[0]).write_text("\n".join(["0", str(len(lines)), *lines, ""]))
    tail = "garbage behind the end"
    expected = _damage_all(node.data_dir, random.Random(SEED), {tail: LOG_DAMAGES[tail]})
    node.start()
    _check_all(node, expected, random.Random(SEED))


def test_a_producer_that_goes_on_after_the_damage_is_deduplicated(node: NodeProcess, template: Template) -> None:
    """Its last batch is still a duplicate, the one after it is new, and one that was cut off is taken again."""
    shutil.copytree(template.killed, node.data_dir)
    rng = random.Random(SEED)
    cut = "cut between batches"
    expected = _damage_all(node.data_dir, rng, {cut: LOG_DAMAGES[cut], **BESIDE_DAMAGES})
    node.start()
    with Client(node.port) as client:
        for partition, (name, batches) in enumerate(expected.items()):
            if not batches:
                continue
            last = read_header(batches[-1])
            again, following = (_batch(len(batches) - back, last.producer_id) for back in (1, 0))
            assert client.produce(TOPIC, partition, again) == last.base_offset, name
            assert client.produce(TOPIC, partition, following) == last.next_offset, name
        assert len(content(client, PARTITION_OF[cut])) == len(expected[cut]) + 1
