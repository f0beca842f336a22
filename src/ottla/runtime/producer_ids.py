"""Producer ids for the producers that ask this node."""

import asyncio

import structlog

from ottla.base.errors import ErrorCode, Refused
from ottla.core.metadata.asks import ProducerIdBlock
from ottla.runtime.controller import Controller

log = structlog.get_logger(__name__)

_PREFETCH_AT = 0.1
"""The part of a block that is left when the next one is asked for."""


class ProducerIds:
    """Ids out of blocks that belong to this broker alone. The next block comes before the current one is used up."""

    def __init__(self, controller: Controller, me: int) -> None:
        self._controller = controller
        self._me = me
        self._next = self._end = 0
        self._prefetch_at = 0
        self._coming: asyncio.Task[ProducerIdBlock] | None = None

    async def next(self) -> int:
        while self._next == self._end:
            await self._take_block()
        taken = self._next
        self._next += 1
        if self._end - self._next <= self._prefetch_at:
            self._fetch()
        return taken

    async def _take_block(self) -> None:
        coming = self._fetch()
        try:
            block = await asyncio.shield(coming)
        except Refused as refusal:
            # Clients ask again after this code, and there may be a controller by then.
            raise Refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, refusal.why) from None
        finally:
            if self._coming is coming and coming.done():
                self._coming = None
        if self._next == self._end and block.first >= self._end:
            # Of all that waited for this block only the first takes it over.
            self._next, self._end = block.first, block.first + block.count
            self._prefetch_at = int(block.count * _PREFETCH_AT)

    def _fetch(self) -> asyncio.Task[ProducerIdBlock]:
        if self._coming is None:
            self._coming = asyncio.get_running_loop().create_task(self._allocate(), name="producer ids")
            self._coming.add_done_callback(_report)
        return self._coming

    async def _allocate(self) -> ProducerIdBlock:
        broker = self._controller.image.brokers.get(self._me)
        if broker is None:
            raise Refused(ErrorCode.BROKER_NOT_AVAILABLE, "this broker is not registered yet")
        return await self._controller.allocate_producer_ids(self._me, broker.epoch)


def _report(task: asyncio.Task[ProducerIdBlock]) -> None:
    if not task.cancelled() and isinstance(task.exception(), Refused):
        log.warning("producer ids not allocated", reason=str(task.exception()))
