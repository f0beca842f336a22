"""Partitions, read from one offset up to another, committed data alone."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from ottla.base.types import TopicPartition
from ottla.client.cluster import Cluster
from ottla.client.failures import ClientFailure
from ottla.client.fetch import Appetite, Fetched, data_batches, fetch, next_offset
from ottla.wire.batch import decode_records

_PAUSE_S = 0.02


class Row(NamedTuple):
    partition: int
    offset: int
    value: bytes


async def read_range(cluster: Cluster, place: TopicPartition, start: int, end: int) -> list[Row]:
    """Everything that counts in [start, end); waits until all of that is stable."""
    rows: list[Row] = []
    at = start
    deadline = cluster.deadline()
    while at < end and not deadline.is_over:
        outcome = (await fetch(cluster, {place: at}, Appetite(wait_ms_max=200), deadline))[place]
        if isinstance(outcome, ClientFailure):
            if not outcome.is_retriable:
                raise outcome
            await asyncio.sleep(_PAUSE_S)
            continue
        rows += _rows(place, outcome, at, end)
        at = next_offset(outcome, at)
    if at < end:
        raise TimeoutError(f"{place} is stuck at {at} in front of {end}")
    return rows


def _rows(place: TopicPartition, fetched: Fetched, start: int, end: int) -> list[Row]:
    return [
        Row(place.partition, record.offset, record.value or b"")
        for position, header in data_batches(fetched)
        for record in decode_records(fetched.records[position : position + header.size])
        if start <= record.offset < end
    ]
