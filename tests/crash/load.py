"""Writers and readers that run until the node dies under them, and go on when it is back."""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from ottla.base.errors import ErrorCode
from ottla.wire.batch import ProducerStamp, encode_batch, iter_headers, new_records

from .client import EARLIEST, LATEST, Answered, Client
from .ledger import Ledger, Stamp, sealed_value, stored_in
from .node import NodeProcess

END_SECONDS_MAX = 60.0


@dataclass(frozen=True)
class Manner:
    """How a writer writes."""

    acks: int = -1
    is_idempotent: bool = True
    window: int = 1
    records_max: int = 8
    value_bytes_max: int = 2_000
    keys: int = 0
    """How many different keys; 0 for none."""
    pause_seconds: float = 0.0


class _Batch(NamedTuple):
    data: bytes
    stamps: list[Stamp]
    keys: list[bytes | None]


class Writer:
    """One producer of one partition. An idempotent one sends what is unanswered again, with the same sequences."""

    def __init__(self, number: int, topic: str, partition: int, ledger: Ledger, manner: Manner, seed: int) -> None:
        self.number = number
        self.place = (topic, partition)
        self.ledger = ledger
        self.manner = manner
        self.batches_acked = 0
        self.resends = 0
        self.too_old = 0
        """Batches sent again that the node no longer remembered as duplicates."""
        self._random = random.Random(seed)
        self._producer_id = -1
        self._numbers = 0
        self._sequence = 0
        self._pending: deque[_Batch] = deque()

    def run(self, client: Client, stop: threading.Event) -> None:
        """Until told to stop, or until the connection breaks."""
        if self.manner.is_idempotent and self._producer_id < 0:
            self._producer_id = client.new_producer_id()
        again = len(self._pending)
        for batch in self._pending:
            self._send(client, batch)
        self.resends += again
        while not stop.is_set():
            while len(self._pending) < self.manner.window:
                self._pending.append(self._next_batch())
                self._send(client, self._pending[-1])
            self._take_answer(client, again > 0)
            again -= 1
            if self.manner.pause_seconds:
                time.sleep(self.manner.pause_seconds)
        while self._pending:
            self._take_answer(client, again > 0)
            again -= 1

    def abandon(self) -> None:
        """The connection is gone. Without sequences nobody knows what became of the unanswered ones."""
        if not self.manner.is_idempotent:
            self._pending.clear()

    def _send(self, client: Client, batch: _Batch) -> None:
        client.send_produce(*self.place, batch.data, self.manner.acks)

    def _take_answer(self, client: Client, is_resent: bool) -> None:
        try:
            base_offset = client.receive_produce()
        except Answered as answer:
            if answer.code != ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER or not is_resent:
                raise
            self.too_old += 1
            self._pending.popleft()
            return
        batch = self._pending.popleft()
        self.ledger.note_acked(base_offset, batch.stamps, batch.keys)
        self.batches_acked += 1

    def _next_batch(self) -> _Batch:
        manner, count = self.manner, self._random.randint(1, self.manner.records_max)
        stamps = [Stamp(self.number, self._numbers + at) for at in range(count)]
        self._numbers += count
        self.ledger.numbers_sent[self.number] = self._numbers
        keys = [b"k%d" % self._random.randrange(manner.keys) if manner.keys else None for _ in range(count)]
        values = (sealed_value(stamp, self._random.randint(20, manner.value_bytes_max)) for stamp in stamps)
        producer = ProducerStamp()
        if manner.is_idempotent:
            producer = ProducerStamp(self._producer_id, 0, self._sequence)
            self._sequence += count
        records = new_records(list(zip(keys, values, strict=True)), time.time_ns() // 1_000_000)
        return _Batch(encode_batch(records, producer=producer), stamps, keys if manner.keys else [])


class Reader:
    """One consumer that follows a partition and remembers everything it saw."""

    def __init__(self, topic: str, partition: int, ledger: Ledger) -> None:
        self.place = (topic, partition)
        self.ledger = ledger
        self._offset = 0

    def run(self, client: Client, stop: threading.Event) -> None:
        while not stop.is_set():
            try:
                answer = client.fetch(*self.place, self._offset, max_wait_ms=50)
            except Answered as error:
                if error.code != ErrorCode.OFFSET_OUT_OF_RANGE:
                    raise
                self._move_to_start(client)
                continue
            self._take(answer.records)

    def abandon(self) -> None:
        """Nothing to forget."""

    def _move_to_start(self, client: Client) -> None:
        start, end = client.list_offset(*self.place, EARLIEST), client.list_offset(*self.place, LATEST)
        if self._offset > end:
            self.ledger.note_fault(f"the log ends at {end}, a consumer had read up to {self._offset}")
        self._offset = max(start, self._offset)

    def _take(self, records: object) -> None:
        data = memoryview(records or b"")  # type: ignore[arg-type]
        for at, header in iter_headers(data):
            stored = stored_in([data[at : at + header.size]])
            self.ledger.note_seen(record for record in stored if record.offset >= self._offset)
            self._offset = header.next_offset


class Job(Protocol):
    """What runs against a node on a connection of its own."""

    def run(self, client: Client, stop: threading.Event) -> None: ...

    def abandon(self) -> None:
        """The connection broke."""


def _work(port: int, job: Job, stop: threading.Event) -> None:
    """Run it on a connection of its own until that breaks, or until it is told to stop."""
    try:
        with Client(port) as client:
            job.run(client, stop)
    except ConnectionError:
        job.abandon()


class Load:
    """Everything that runs against a node at the same time."""

    def __init__(self, node: NodeProcess, jobs: Iterable[Job]) -> None:
        self.node = node
        self.jobs = list(jobs)
        self._pool = ThreadPoolExecutor(max(1, len(self.jobs)))
        self._stop = threading.Event()
        self._running: list[Future[None]] = []

    def begin(self) -> None:
        self._stop.clear()
        self._running = [self._pool.submit(_work, self.node.port, job, self._stop) for job in self.jobs]

    def end(self) -> None:
        """Let all finish what they have begun (or find the node dead), and tell what went wrong."""
        self._stop.set()
        for future in self._running:
            future.result(END_SECONDS_MAX)

    @contextmanager
    def running(self) -> Iterator[None]:
        self.begin()
        try:
            yield
        finally:
            self._stop.set()
        self.end()

    def close(self) -> None:
        self._stop.set()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def acked(self) -> int:
        return sum(job.batches_acked for job in self.jobs if isinstance(job, Writer))

    def wait_for_progress(self, batches: int) -> None:
        """Until so many more batches have been acknowledged."""
        target, deadline = self.acked() + batches, time.monotonic() + END_SECONDS_MAX
        while self.acked() < target:
            assert time.monotonic() < deadline, f"{self.acked()} of {target} batches acknowledged"
            for future in self._running:
                if future.done() and future.exception() is not None:
                    future.result()
            time.sleep(0.005)


def check_partition(client: Client, topic: str, partition: int, ledger: Ledger) -> int:
    """Read the whole log and hold it against the ledger; its end offset."""
    start = client.list_offset(topic, partition, EARLIEST)
    stored = stored_in(client.batches(topic, partition, start))
    ledger.check(stored, start)
    return stored[-1].offset + 1 if stored else start
