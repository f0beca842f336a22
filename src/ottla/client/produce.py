"""Produce: batches that their maker has stamped with producer, epoch and sequence, to the leaders, with acks=all.

What is submitted within one turn of the event loop travels in one request for each leader.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from ottla.base.errors import ErrorCode
from ottla.base.types import Offset, TopicPartition
from ottla.client.cluster import Cluster
from ottla.client.connection import Connection
from ottla.client.deadline import Deadline
from ottla.client.failures import BrokerRefused, ClientFailure, Unreachable
from ottla.client.metadata import NO_LEADER
from ottla.client.outbound import STORED_BEFORE, Batch, Outbound, Settled
from ottla.client.spread import NoAnswer
from ottla.client.versions import ANY, Span
from ottla.wire.batch_header import Bytes, read_header
from ottla.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)

ALL = -1
_BY_NAME_MAX = 12
REQUEST_BYTES_MAX = 8 * 1024 * 1024
"""One batch is sent even if it is larger."""
UNSTORED_BYTES_MAX = 64 * 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class Manner:
    """Which versions of Produce fit: the newer ones let a batch join its transaction by itself (KIP-890)."""

    transactional_id: str | None = None
    span: Span = ANY


class _Sent(NamedTuple):
    queue: Outbound
    batch: Batch


class BatchSender:
    """`submit` as fast as it lets you, `flush` in the end."""

    def __init__(self, cluster: Cluster, manner: Manner | None = None) -> None:
        self.manner = manner or Manner()
        self.failure: ClientFailure | None = None
        """The first since the last `begin_anew`."""
        self._cluster = cluster
        self._queues: dict[TopicPartition, Outbound] = {}
        self._answers: dict[Batch, asyncio.Future[Offset | None]] = {}
        self._unstored_bytes = 0
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._wake = asyncio.Event()
        self._pumping: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._bug: BaseException | None = None

    async def submit(self, place: TopicPartition, records: Bytes) -> asyncio.Future[Offset | None]:
        """Taken into the queue; the future tells its offset (None: stored, but the broker has forgotten where)."""
        header = read_header(records)
        if header.producer_id < 0 or header.base_sequence < 0:
            raise ValueError("without a producer id and a sequence a batch cannot be sent safely")
        queue = self._queues.setdefault(place, Outbound(place, self._cluster.backoff))
        await self._has_room.wait()
        queue.check()
        if self._bug is not None:
            raise self._bug
        loop = asyncio.get_running_loop()
        batch = Batch(records, loop.time() + self._cluster.settings.patience_s)
        answer: asyncio.Future[Offset | None] = loop.create_future()
        answer.add_done_callback(_look_at)
        self._answers[batch] = answer
        self._count_bytes(len(records))
        queue.add(batch)
        self._wake.set()
        if self._pumping is None:
            self._pumping = self._watched(self._pump())
        return answer

    async def flush(self) -> None:
        """Everything submitted is stored; if not, the first failure is raised."""
        while self._answers:
            await asyncio.wait(list(self._answers.values()))
        if self._bug is not None:
            raise self._bug
        if self.failure is not None:
            raise self.failure

    def give_up(self) -> None:
        """What has not been sent is not; what is under way is waited for by `flush`, and not sent again."""
        for queue in self._queues.values():
            self._settle(queue.give_up())

    @property
    def has_gaps(self) -> bool:
        """Whether the sequence of some partition is broken in this epoch."""
        return any(queue.failure is not None for queue in self._queues.values())

    def begin_anew(self) -> None:
        """Another epoch: sequences begin at 0, and what failed before is forgotten."""
        if self._answers:
            raise RuntimeError("batches are under way: flush first")
        self._queues.clear()
        self.failure = None

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for answer in self._answers.values():
            answer.cancel()
        self._answers.clear()

    def _count_bytes(self, more: int) -> None:
        self._unstored_bytes += more
        if self._unstored_bytes < UNSTORED_BYTES_MAX:
            self._has_room.set()
        else:
            self._has_room.clear()

    def _watched(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._on_end)
        return task

    def _on_end(self, task: asyncio.Task[None]) -> None:
        """Nothing but a bug ends a task with an exception; then nobody may wait for ever."""
        self._tasks.discard(task)
        if not task.cancelled() and (bug := task.exception()) is not None:
            self._bug = bug
            answers, self._answers = self._answers, {}
            for answer in answers.values():
                if not answer.done():
                    answer.set_exception(bug)

    # One task takes batches out of the queues, so that they leave in order

    async def _pump(self) -> None:
        """Until there is nothing left to do."""
        loop = asyncio.get_running_loop()
        while self._answers:
            now = loop.time()  # one moment for both questions, or a pause that ends in between is slept through
            ready = [place for place, queue in self._queues.items() if queue.is_ready(now)]
            if ready:
                await self._dispatch(ready)
                continue
            self._wake.clear()
            pauses = [queue.rests_until for queue in self._queues.values() if queue.is_resting(now)]
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(min(pauses, default=None)):
                    await self._wake.wait()
        self._pumping = None

    async def _dispatch(self, places: list[TopicPartition]) -> None:
        try:
            groups = await self._cluster.by_leader(places, Deadline(self._cluster.settings.request_s))
        except ClientFailure as failure:
            for place in places:
                self._postpone(place, failure)
            return
        for place in groups.pop(NO_LEADER, ()):
            self._postpone(place, self._cluster.absence(place))
        for node_id, share in groups.items():
            try:
                leader = await self._cluster.broker(node_id)
            except ClientFailure as failure:
                if isinstance(failure, Unreachable):
                    self._cluster.note_unreachable(node_id)
                for place in share:
                    self._postpone(place, failure)
                continue
            for sent in self._taken(share):
                self._watched(self._exchange(leader, sent))

    def _taken(self, places: Iterable[TopicPartition]) -> Iterator[list[_Sent]]:
        """Requests of a bounded size, with one batch of each partition."""
        taken: list[_Sent] = []
        size = 0
        for place in places:
            queue = self._queues[place]
            if taken and size + queue.next_bytes > REQUEST_BYTES_MAX:
                yield taken
                taken, size = [], 0
            batch = queue.take()
            size += len(batch.records)
            taken.append(_Sent(queue, batch))
        if taken:
            yield taken

    def _postpone(self, place: TopicPartition, failure: ClientFailure) -> None:
        queue = self._queues[place]
        self._settle(queue.postpone(failure, asyncio.get_running_loop().time()))

    async def _exchange(self, leader: Connection, sent: list[_Sent]) -> None:
        try:
            answers = await self._ask(leader, sent)
        except ClientFailure as failure:
            answers = {}
            general: ClientFailure = failure
        else:
            general = NoAnswer("the broker left the partition out")
        now = asyncio.get_running_loop().time()
        for queue, batch in sent:
            answer = answers.get(queue.place)
            if answer is None:
                self._settle(queue.on_failed(batch, general, now))
            elif answer.error_code in (ErrorCode.NONE, STORED_BEFORE):
                offset = None if answer.error_code or answer.base_offset < 0 else Offset(answer.base_offset)
                self._settle(queue.on_stored(batch, offset))
            else:
                self._cluster.note(queue.place, answer.error_code)
                refused = BrokerRefused(answer.error_code, answer.error_message or "", str(queue.place))
                self._settle(queue.on_failed(batch, refused, now))

    async def _ask(self, leader: Connection, sent: list[_Sent]) -> dict[TopicPartition, PartitionProduceResponse]:
        settings, view = self._cluster.settings, self._cluster.view
        topics: dict[str, TopicProduceData] = {}
        places: dict[tuple[str | bytes, int], TopicPartition] = {}
        has_ids = True
        for queue, batch in sent:
            name, index = queue.place
            topic_id = view.topics[name].id if name in view.topics else b""
            has_ids = has_ids and name in view.topics and view.topics[name].has_id
            topic = topics.setdefault(name, TopicProduceData(name, topic_id))
            topic.partition_data.append(PartitionProduceData(index, batch.records))
            places[topic_id, index] = places[name, index] = queue.place
        span = self.manner.span if has_ids else self.manner.span.up_to(_BY_NAME_MAX)
        request = ProduceRequest(
            self.manner.transactional_id, ALL, int(settings.request_s * 1000), list(topics.values())
        )
        patience = Deadline(2 * settings.request_s)  # the broker itself waits up to half of that
        response = await leader.ask(request, patience, span, is_slow=True)
        return {
            place: one
            for topic in response.responses
            for one in topic.partition_responses
            if (place := places.get((topic.name or bytes(topic.topic_id), one.index)))
        }

    def _settle(self, settled: list[Settled]) -> None:
        for batch, offset, failure in settled:
            self._count_bytes(-len(batch.records))
            answer = self._answers.pop(batch, None)
            if failure is not None:
                self.failure = self.failure or failure
            if answer is None or answer.done():
                continue
            if failure is not None:
                answer.set_exception(failure)
            else:
                answer.set_result(offset)
        self._wake.set()


def _look_at(answer: asyncio.Future[Offset | None]) -> None:
    """Whoever only flushes does not look at each."""
    if not answer.cancelled():
        answer.exception()
