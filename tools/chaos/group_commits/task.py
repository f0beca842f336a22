"""A task: reads its share of the source, writes it in a transaction of its own, and tells by which."""

from __future__ import annotations

import contextlib
import json
import os
import time
from dataclasses import dataclass
from random import Random

from ottla.base.types import TopicPartition
from ottla.client.cluster import Cluster
from ottla.client.transactions import Identity, TransactionalProducer
from ottla.wire.batch import encode_batch, new_records
from tools.chaos.group_commits.fates import TASK, Fate, Mortal
from tools.chaos.group_commits.reading import Row, read_range
from tools.chaos.group_commits.setting import OUTPUT, PARTITIONS, SOURCE, TRANSACTION_TIMEOUT_MS, Setting

_ROWS_PER_RECORD_BATCH = 5


@dataclass(frozen=True)
class Share:
    batch: int
    transactional_id: str
    ranges: tuple[tuple[int, int, int], ...]
    """Partition, start, end."""


async def work(setting: Setting, share: Share, fate: Fate, teller: int) -> None:
    mortal = Mortal(TASK, fate, setting)
    mortal.at("begun")
    async with Cluster(setting.client()) as cluster:
        producer = TransactionalProducer(cluster, share.transactional_id, TRANSACTION_TIMEOUT_MS)
        await producer.init()
        mortal.at("initialised")
        for partition, start, end in share.ranges:
            rows = await read_range(cluster, TopicPartition(SOURCE, partition), start, end)
            await write(producer, share.batch, rows)
        mortal.at("submitted")
        await producer.flush()
        mortal.at("flushed")
        with contextlib.suppress(BrokenPipeError):  # its driver is dead
            os.write(teller, json.dumps(producer.identity).encode())
        mortal.at("told")
        await producer.close()


async def write(producer: TransactionalProducer, batch: int, rows: list[Row]) -> None:
    """Each row under its batch and its place in the source, in small pieces over all partitions."""
    rng = Random(os.getpid())
    for at in range(0, len(rows), _ROWS_PER_RECORD_BATCH):
        piece = rows[at : at + _ROWS_PER_RECORD_BATCH]
        values = [b"%d|%d|%d|%s" % (batch, row.partition, row.offset, row.value) for row in piece]
        place = TopicPartition(OUTPUT, rng.randrange(PARTITIONS))
        records = new_records([(None, value) for value in values], int(time.time() * 1000))
        await producer.submit(place, encode_batch(records, producer=producer.stamp(place, len(records))))


def identity_from(told: bytes) -> Identity | None:
    """None if the task died before it had said all of it."""
    try:
        return Identity(*json.loads(told))
    except ValueError:
        return None
