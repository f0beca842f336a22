"""Rows that come a few at a time, written together: those that came while the ones before were being written.

In tail mode Spark hands on single rows, and to encode and send one takes as long as for a hundred. So nobody waits for
others, and when much comes everybody goes in company.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from threading import Condition
from types import TracebackType
from typing import Protocol

import pyarrow as pa

COMPANY_ROWS = 1_000
"""When so many are together nobody else joins them."""
WAITING_ROWS_MAX = 20_000


class Writer(Protocol):
    def write(self, rows: pa.RecordBatch) -> None: ...


class Gathering:
    """To be used with `with`: at its end all is written, or what failed is raised."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._turn = Condition()
        self._waiting: list[pa.RecordBatch] = []
        self._row_count = 0
        self._is_over = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="ottla-gathering")
        self._work: Future[None] | None = None

    def write(self, rows: pa.RecordBatch) -> None:
        """Taken. What went wrong with rows before is raised here, too."""
        if self._work is None:
            self._work = self._thread.submit(self._write_all)
            self._work.add_done_callback(self._wake)
        with self._turn:
            while self._row_count >= WAITING_ROWS_MAX and not self._work.done():
                self._turn.wait()
            if self._work.done():
                self._work.result()
            self._waiting.append(rows)
            self._row_count += rows.num_rows
            self._turn.notify_all()

    def __enter__(self) -> Gathering:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Behind a failure nothing more is written, and when this returns nobody is writing."""
        with self._turn:
            self._is_over = True
            if kind is not None:
                self._waiting.clear()
            self._turn.notify_all()
        self._thread.shutdown()
        if self._work is not None and kind is None:
            self._work.result()

    def _write_all(self) -> None:
        while company := self._next():
            self._writer.write(company[0] if len(company) == 1 else pa.concat_batches(company))

    def _next(self) -> list[pa.RecordBatch]:
        """Those who wait, as soon as there is anybody; nobody when no more will come."""
        company: list[pa.RecordBatch] = []
        count = 0
        with self._turn:
            while not self._waiting and not self._is_over:
                self._turn.wait()
            while self._waiting and (not company or count + self._waiting[0].num_rows <= COMPANY_ROWS):
                company.append(self._waiting.pop(0))
                count += company[-1].num_rows
            self._row_count -= count
            self._turn.notify_all()
        return company

    def _wake(self, _: Future[None]) -> None:
        with self._turn:
            self._turn.notify_all()
