"""What a crash may leave behind of a partition, a node's checkpoints, or the metadata log. One function a damage."""

from __future__ import annotations

import random
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

from .segments import Found, batches_in, segment_files

Damage = Callable[[Path, random.Random], None]


def _last(partition: Path) -> Path:
    return [path for path in segment_files(partition) if path.stat().st_size][-1]


def _batches(path: Path) -> list[Found]:
    return batches_in(path.read_bytes(), 0)[0]


def _overwrite(path: Path, position: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        file.write(data)


def _append(path: Path, data: bytes | bytearray) -> None:
    with path.open("ab") as file:
        file.write(data)


def _truncate(path: Path, size: int) -> None:
    with path.open("r+b") as file:
        file.truncate(size)


# --- the log


def _cut_anywhere(partition: Path, rng: random.Random) -> None:
    path = _last(partition)
    _truncate(path, rng.randrange(path.stat().st_size))


def _cut_in_header(partition: Path, rng: random.Random) -> None:
    path = _last(partition)
    _truncate(path, rng.choice(_batches(path)).position + rng.randrange(1, 61))


def _cut_at_batch(partition: Path, rng: random.Random) -> None:
    path = _last(partition)
    _truncate(path, rng.choice(_batches(path)).position)


def _cut_to_nothing(partition: Path, rng: random.Random) -> None:
    _truncate(_last(partition), 0)


def _cut_first_segment(partition: Path, rng: random.Random) -> None:
    path = segment_files(partition)[0]
    _truncate(path, rng.randrange(1, path.stat().st_size))


def _garbage_tail(partition: Path, rng: random.Random) -> None:
    _append(_last(partition), rng.randbytes(rng.randrange(1, 9_000)))


def _zero_tail(partition: Path, rng: random.Random) -> None:
    _append(_last(partition), bytes(rng.randrange(1, 70_000)))


def _half_a_batch_tail(partition: Path, rng: random.Random) -> None:
    path = _last(partition)
    one = _batches(path)[-1]
    data = bytearray(path.read_bytes()[one.position : one.position + one.size - 1])
    struct.pack_into(">q", data, 0, one.last_offset + 1)
    _append(path, data)


def _old_batch_tail(partition: Path, rng: random.Random) -> None:
    """Sound, but its offset was given to another before."""
    path = _last(partition)
    one = _batches(path)[-1]
    _append(path, path.read_bytes()[one.position : one.position + one.size])


def _zeros_over_tail(partition: Path, rng: random.Random) -> None:
    path = _last(partition)
    count = rng.randrange(1, path.stat().st_size)
    _overwrite(path, path.stat().st_size - count, bytes(count))


def _hole(partition: Path, rng: random.Random) -> None:
    """A block that never reached the disk."""
    path = rng.choice(segment_files(partition)[:-1])
    _overwrite(path, rng.randrange(path.stat().st_size - 4096) & ~4095, bytes(4096))


def _flipped_bit(partition: Path, rng: random.Random) -> None:
    path = _last(partition)
    one = rng.choice(_batches(path))
    at = one.position + rng.randrange(21, one.size)
    _overwrite(path, at, bytes([path.read_bytes()[at] ^ (1 << rng.randrange(8))]))


def _wrong_length(partition: Path, rng: random.Random) -> None:
    path = _last(partition)
    length = rng.choice([-1, 0, 48, 2**31 - 1, -(2**31), 10_000_000])
    _overwrite(path, rng.choice(_batches(path)).position + 8, struct.pack(">i", length))


def _wrong_magic(partition: Path, rng: random.Random) -> None:
    path = _last(partition)
    _overwrite(path, rng.choice(_batches(path)).position + 16, bytes([rng.choice([0, 1, 3, 127])]))


def _lost_segment(partition: Path, rng: random.Random) -> None:
    """The newest segment's name did not reach the disk, those of its indexes did."""
    _last(partition).unlink()


def _empty_segment(partition: Path, rng: random.Random) -> None:
    """A roll, and nothing after it."""
    end = _batches(_last(partition))[-1].last_offset + 1
    for suffix in rng.sample([".log", ".index", ".timeindex"], rng.randrange(1, 4)):
        (partition / f"{end:020d}{suffix}").touch()


# --- its indexes


def _on_index(change: Callable[[Path, random.Random], None]) -> Damage:
    def damage(partition: Path, rng: random.Random) -> None:
        segment = rng.choice(segment_files(partition))
        for suffix in rng.choice([[".index"], [".timeindex"], [".index", ".timeindex"]]):
            change(segment.with_suffix(suffix), rng)

    return damage


def _remove(path: Path, rng: random.Random) -> None:
    path.unlink()


def _scramble(path: Path, rng: random.Random) -> None:
    path.write_bytes(rng.randbytes(path.stat().st_size or 24))


def _scramble_longer(path: Path, rng: random.Random) -> None:
    path.write_bytes(rng.randbytes(rng.randrange(1, 5_000)))


def _shorten(path: Path, rng: random.Random) -> None:
    path.write_bytes(path.read_bytes()[: -rng.randrange(1, 12)])


def _empty(path: Path, rng: random.Random) -> None:
    path.write_bytes(b"")


def _zero(path: Path, rng: random.Random) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def _preallocate(path: Path, rng: random.Random) -> None:
    """As Apache Kafka keeps the indexes of a segment that is written to."""
    size = 10 * 1024 * 1024 // 12 * 12 if path.suffix == ".timeindex" else 10 * 1024 * 1024
    _truncate(path, size)


# --- what lies beside


def _on_file(name: str, change: Callable[[Path, random.Random], None]) -> Damage:
    return lambda partition, rng: change(partition / name, rng)


def _on_snapshots(change: Callable[[Path, random.Random], None]) -> Damage:
    def damage(partition: Path, rng: random.Random) -> None:
        for path in partition.glob("*.snapshot"):
            change(path, rng)

    return damage


def _snapshot_from_the_future(partition: Path, rng: random.Random) -> None:
    for path in list(partition.glob("*.snapshot"))[-1:]:
        shutil.copy(path, partition / f"{10**9:020d}.snapshot")


def _wrong_epochs(path: Path, rng: random.Random) -> None:
    path.write_text(rng.choice(["0\n5\n0 0\n", "0\n1\n", "0\n2\n3 0\n1 50\n", "0\n1\n0 999999\n", "7\n0\n", "\n"]))


def _being_compacted(partition: Path, rng: random.Random) -> None:
    """A compaction that was still writing."""
    first = segment_files(partition)[0]
    for suffix in (".log", ".index", ".timeindex"):
        (partition / f"{first.stem}{suffix}.cleaned").write_bytes(rng.randbytes(rng.randrange(5_000)))


def _just_compacted(partition: Path, rng: random.Random) -> None:
    """One that had written everything and begun to swap."""
    first = segment_files(partition)[0]
    for suffix in (".log", ".index", ".timeindex"):
        path = first.with_suffix(suffix)
        shutil.copy(path, f"{path}.swap")
    for suffix in rng.sample([".log", ".index", ".timeindex"], rng.randrange(3)):
        path = first.with_suffix(suffix)
        path.rename(f"{path}.deleted")


def _half_swapped(partition: Path, rng: random.Random) -> None:
    first = segment_files(partition)[0]
    for suffix in (".log", ".index", ".timeindex"):
        path = first.with_suffix(suffix)
        path.rename(f"{path}.swap")


def _being_deleted(partition: Path, rng: random.Random) -> None:
    for suffix in (".log", ".index", ".timeindex", ".snapshot"):
        (partition / f"{0:020d}{suffix}.deleted").write_bytes(rng.randbytes(300))


def _drafts(partition: Path, rng: random.Random) -> None:
    for name in ("leader-epoch-checkpoint.tmp", "partition.metadata.tmp", "junk.txt", "0.log", f"{7:020d}.index"):
        (partition / name).write_bytes(rng.randbytes(100))


LOG_DAMAGES: dict[str, Damage] = {
    "cut anywhere": _cut_anywhere,
    "cut in a header": _cut_in_header,
    "cut between batches": _cut_at_batch,
    "cut to nothing": _cut_to_nothing,
    "cut in the first segment": _cut_first_segment,
    "garbage behind the end": _garbage_tail,
    "zeros behind the end": _zero_tail,
    "half a batch behind the end": _half_a_batch_tail,
    "an old batch behind the end": _old_batch_tail,
    "zeros over the end": _zeros_over_tail,
    "a block of zeros": _hole,
    "a flipped bit": _flipped_bit,
    "a wrong length": _wrong_length,
    "a wrong magic": _wrong_magic,
    "the last segment lost": _lost_segment,
    "an empty segment": _empty_segment,
}
"""After these a part of the log may be gone, but only from the first bad batch on."""

INDEX_DAMAGES: dict[str, Damage] = {
    "index removed": _on_index(_remove),
    "index scrambled": _on_index(_scramble),
    "index scrambled and longer": _on_index(_scramble_longer),
    "index cut off": _on_index(_shorten),
    "index emptied": _on_index(_empty),
    "index zeroed": _on_index(_zero),
    "index preallocated": _on_index(_preallocate),
}
BESIDE_DAMAGES: dict[str, Damage] = {
    "snapshots removed": _on_snapshots(_remove),
    "snapshots scrambled": _on_snapshots(_scramble),
    "snapshots emptied": _on_snapshots(_empty),
    "a snapshot from the future": _snapshot_from_the_future,
    "epochs removed": _on_file("leader-epoch-checkpoint", _remove),
    "epochs scrambled": _on_file("leader-epoch-checkpoint", _scramble),
    "epochs emptied": _on_file("leader-epoch-checkpoint", _empty),
    "epochs wrong": _on_file("leader-epoch-checkpoint", _wrong_epochs),
    "topic id removed": _on_file("partition.metadata", _remove),
    "topic id emptied": _on_file("partition.metadata", _empty),
    "being compacted": _being_compacted,
    "just compacted": _just_compacted,
    "half swapped": _half_swapped,
    "being deleted": _being_deleted,
    "drafts and junk": _drafts,
}
"""After these nothing may be gone."""

CHECKPOINTS = (
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
    "log-start-offset-checkpoint",
    "cleaner-offset-checkpoint",
)
FILE_DAMAGES: dict[str, Callable[[Path, random.Random], None]] = {
    "removed": _remove,
    "scrambled": _scramble,
    "emptied": _empty,
    "cut off": _shorten,
}
