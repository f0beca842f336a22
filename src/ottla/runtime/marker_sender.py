"""Writes the ends of transactions into the partitions that they touched.

One attempt per question: what could not be written the coordinator asks for again.
"""

import asyncio
from collections.abc import Callable, Iterable

import structlog

from ottla.base.errors import ErrorCode, Refused
from ottla.core.transactions.asks import WriteMarkers
from ottla.core.transactions.records import TopicPartition
from ottla.runtime.clock import now_ms
from ottla.runtime.group_coordinator import OFFSETS_TOPIC, GroupCoordinator
from ottla.runtime.replicas import Replicas
from ottla.wire.control import EndTxnMarker

log = structlog.get_logger(__name__)

_COMMIT_SECONDS_MAX = 30.0
_Way = tuple[str, int, str, int]
Written = Callable[[frozenset[TopicPartition]], None]


class MarkerSender:
    def __init__(self, replicas: Replicas, groups: GroupCoordinator) -> None:
        self._replicas = replicas
        self._groups = groups
        self._on_their_way: set[_Way] = set()

    def write(
        self, topic: str, index: int, marker: EndTxnMarker, transaction_version: int
    ) -> asyncio.Future[None] | None:
        """Into one partition that is led here; what to wait for, if anything. Raises Refused."""
        if topic == OFFSETS_TOPIC:
            # The coordinator has to know which of its offsets count now.
            return self._groups.write_marker(index, marker, transaction_version)
        partition = self._replicas.find(topic, index)
        return partition.acknowledged(partition.append_marker(marker, transaction_version, now_ms()), -1)

    async def write_and_wait(self, topic: str, index: int, marker: EndTxnMarker, transaction_version: int) -> None:
        """Into one partition, until it is committed there; raises Refused."""
        written = self.write(topic, index, marker, transaction_version)
        if written is not None:
            await asyncio.wait([written], timeout=_COMMIT_SECONDS_MAX)
            if not written.done():
                raise Refused(ErrorCode.REQUEST_TIMED_OUT, "the marker is in the log but not committed in time")
            written.result()

    async def send(self, effect: WriteMarkers, on_written: Written) -> None:
        """Tell of every partition in which the marker stands, or that exists no more.

        What is on its way from an earlier question is not sent again; that question tells of it.
        """
        marker = EndTxnMarker(
            effect.producer_id, effect.producer_epoch, effect.committed, coordinator_epoch=effect.coordinator_epoch
        )
        done: set[TopicPartition] = set()
        waiting: dict[TopicPartition, asyncio.Future[None]] = {}
        for topic, index in effect.partitions:
            if (effect.transactional_id, effect.marker_id, topic, index) in self._on_their_way:
                continue
            try:
                future = self.write(topic, index, marker, effect.transaction_version)
            except Refused as refusal:
                if refusal.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    done.add((topic, index))
                else:
                    _report(effect, f"{topic}-{index}", refusal)
                continue
            if future is None:
                done.add((topic, index))
            else:
                waiting[topic, index] = future
        if waiting:
            ways = {(effect.transactional_id, effect.marker_id, topic, index) for topic, index in waiting}
            self._on_their_way |= ways
            done.update(await _committed(waiting, effect))
            self._on_their_way -= ways
        if done:
            on_written(frozenset(done))


async def _committed(
    waiting: dict[TopicPartition, asyncio.Future[None]], effect: WriteMarkers
) -> Iterable[TopicPartition]:
    await asyncio.wait(waiting.values(), timeout=_COMMIT_SECONDS_MAX)
    done = []
    for (topic, index), future in waiting.items():
        if not future.done():
            continue
        try:
            future.result()
        except Refused as refusal:
            _report(effect, f"{topic}-{index}", refusal)
        else:
            done.append((topic, index))
    return done


def _report(effect: WriteMarkers, partition: str, refusal: Refused) -> None:
    log.warning(
        "transaction marker not written",
        transactional_id=effect.transactional_id,
        partition=partition,
        reason=str(refusal),
    )
