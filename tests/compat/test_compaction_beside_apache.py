"""The same logs compacted by Ottla and by Apache Kafka's own cleaner: both must leave the same, round after round."""

from __future__ import annotations

import random
import shutil
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from ottla.base.topic_settings import LogConfig
from ottla.storage.compaction import Cleaning, clean, survey
from ottla.storage.log import REAL_FILES, Log, LogPlace, LogStart
from ottla.storage.txn_index import AbortedTransaction, TxnIndex
from ottla.wire.batch import (
    Codec,
    ProducerStamp,
    Record,
    crc_ok,
    decode_records,
    encode_batch,
    iter_headers,
    read_header,
)
from ottla.wire.control import EndTxnMarker, encode_end_txn_marker

from .java import Missing, run_kafka

pytestmark = pytest.mark.peers

CLEAN_LOGS = Path(__file__).with_name("java") / "CleanLogs.java"
LOGS = 30
ROUNDS = 5
RETENTION_MS = 10_000
KEYS = [b"a", b"b", b"c", b"d" * 40, b"e", None]


class RandomLog:
    """Batches of all kinds, transactions that end well and badly, segments of a kilobyte."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.directory = directory
        self.now_ms = int(time.time() * 1000)
        self.log = open_log(directory, self.now_ms)
        self.grown = 0
        self.epochs: defaultdict[int, int] = defaultdict(int)
        self.sequences: defaultdict[int, int] = defaultdict(int)
        self.in_transaction: set[int] = set()

    def grow(self) -> None:
        self.grown += 1
        passing = 100 + self.grown  # a producer that is not heard of again
        for _ in range(self.random.randint(5, 25)):
            producer_id = self.random.choice([-1, -1, 1, 2, 7, 8, passing])
            if producer_id in self.in_transaction and self.random.random() < 0.4:
                self.end_transaction(producer_id)
            else:
                self.append(producer_id)
            if self.random.random() < 0.1:
                self.log.roll(self.now_ms)
        for producer_id in sorted(self.in_transaction):
            self.end_transaction(producer_id)
        if self.random.random() < 0.5:  # nothing of it may stay but the end of the round
            self._write(encode_batch([Record(0, self.now_ms, None, b"keyless")]))
        self.log.roll(self.now_ms)
        self.append(-1)

    def append(self, producer_id: int) -> None:
        choose, count = self.random, self.random.randint(1, 4)
        records = [
            Record(
                i,
                self.now_ms + choose.randint(-50, 50),
                choose.choice(KEYS),
                choose.choice([None, b"v" * choose.randint(1, 90)]),
            )
            for i in range(count)
        ]
        stamp = ProducerStamp()
        if producer_id >= 0:
            first = self.sequences[producer_id]
            stamp = ProducerStamp(producer_id, self.epochs[producer_id], first, producer_id >= 7)
            self.sequences[producer_id] += count
            if producer_id >= 7:
                self.in_transaction.add(producer_id)
        self._write(encode_batch(records, codec=choose.choice(list(Codec)), producer=stamp))

    def end_transaction(self, producer_id: int) -> None:
        """Now and then the marker bumps the epoch, as it does from transactions version 2 on."""
        self.in_transaction.discard(producer_id)
        if self.random.random() < 0.5:
            self.epochs[producer_id] += 1
            self.sequences[producer_id] = 0
        marker = EndTxnMarker(producer_id, self.epochs[producer_id], self.random.random() < 0.5, 1)
        self._write(encode_end_txn_marker(marker, timestamp_ms=self.now_ms))

    def _write(self, batch: bytes) -> None:
        self.log.append(bytearray(batch), read_header(batch), 0, self.now_ms)
        self.log.producers.advance_high_watermark(self.log.end_offset)


def open_log(directory: Path, now_ms: int) -> Log:
    config = LogConfig(
        cleanup_policy=("compact",), segment_bytes=1000, index_interval_bytes=100, delete_retention_ms=RETENTION_MS
    )
    place = LogPlace(directory.parent, *directory.name.rsplit("-", 1))  # type: ignore[arg-type]
    log = Log.open(LogPlace(place.directory, place.topic, int(place.partition)), config, LogStart(), now_ms)
    log.producers.advance_high_watermark(log.end_offset)
    return log


def what_is_left(log: Log) -> list[tuple[Any, ...]]:
    """Everything that a reader can tell of the log, but for how the records were compressed."""
    left: list[tuple[Any, ...]] = []
    for segment in log.segments:
        data = segment.read(0, segment.size)
        for at, header in iter_headers(data):
            assert crc_ok(data, at, header)
            same = header._replace(batch_length=0, crc=0, base_timestamp=header.delete_horizon_ms or 0)
            left.append((segment.base_offset, same, decode_records(data[at:])))
    return left


def aborted_in(directory: Path) -> list[tuple[str, AbortedTransaction]]:
    """What the indexes of aborted transactions say, as they lie there: whoever opens the log may make them anew."""
    files = sorted(directory.glob("*.txnindex"))
    return [(file.name, aborted) for file in files for aborted in TxnIndex(REAL_FILES, str(file))]


def clean_with_apache(tmp_path: Path, lines: list[str]) -> dict[str, int]:
    """Directory → the offset up to which it is clean now."""
    orders = tmp_path / "orders"
    orders.write_text("\n".join(lines))
    try:
        done = run_kafka(str(CLEAN_LOGS), str(orders))
    except Missing as missing:
        pytest.skip(str(missing))
    assert done.returncode == 0, done.stderr
    return {line.split("\t")[0]: int(line.split("\t")[1]) for line in done.stdout.splitlines()}


def test_what_is_left_is_what_apache_kafka_leaves(tmp_path: Path) -> None:
    """Every other directory changes hands after each round, so each cleaner finds what the other has left."""
    worlds = [RandomLog(tmp_path / f"log-{seed}", seed) for seed in range(LOGS)]
    checkpoints = dict.fromkeys(range(LOGS), 0)
    for turn in range(ROUNDS):
        copies = [tmp_path / f"apache-{turn}" / world.directory.name for world in worlds]
        lines = []
        for seed, (world, copy) in enumerate(zip(worlds, copies, strict=True)):
            world.grow()
            world.log.close()
            shutil.copytree(world.directory, copy)
            world.now_ms += world.random.choice([1, RETENTION_MS, 2 * RETENTION_MS])
            lines.append(f"{copy}\t{checkpoints[seed]}\t{world.now_ms}\t{RETENTION_MS}")
        ends = clean_with_apache(tmp_path, lines)
        for seed, (world, copy) in enumerate(zip(worlds, copies, strict=True)):
            world.log = open_log(world.directory, world.now_ms)
            plan = survey(world.log, checkpoints[seed], world.log.end_offset, world.now_ms)
            cleaning = Cleaning(world.log, plan, world.now_ms)
            for path in clean(cleaning):
                Path(path).unlink()
            for segment in world.log.segments:
                segment.txn_index.write_out()
            assert aborted_in(world.directory) == aborted_in(copy), f"log {seed} in round {turn}"
            theirs = open_log(copy, world.now_ms)
            assert cleaning.end_offset == ends[str(copy)], f"log {seed} in round {turn}"
            assert what_is_left(world.log) == what_is_left(theirs), f"log {seed} in round {turn}"
            checkpoints[seed] = cleaning.end_offset
            if (seed + turn) % 2:
                world.log, theirs = theirs, world.log
                world.directory = copy
            theirs.close()
