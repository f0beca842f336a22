"""Connections to the brokers of a cluster: for each broker one per lane, made when first needed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from enum import Enum, auto

from ottla.client.addresses import Address
from ottla.client.connection import Connection
from ottla.client.settings import ClientSettings


class Lane(Enum):
    """Answers come in the order of the requests, so what waits long by intent must not stand before other things."""

    ORDINARY = auto()
    FETCH = auto()
    COORDINATOR = auto()


class Pool:
    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings
        self._opening: dict[tuple[Address, Lane], asyncio.Task[Connection]] = {}
        self._is_closed = False

    async def get(self, address: Address, lane: Lane = Lane.ORDINARY) -> Connection:
        key = (address, lane)
        opening = self._opening.get(key)
        if opening is None or _is_spent(opening):
            if self._is_closed:
                raise RuntimeError("this client is closed")
            opening = asyncio.create_task(Connection.open(address, self._settings))
            self._opening[key] = opening
        # One who gives up must not take the connection from others who wait for it.
        return await asyncio.shield(opening)

    def open_ones(self, lane: Lane) -> Iterable[Connection]:
        wanted = [one for (_, on), one in self._opening.items() if on is lane]
        return [one.result() for one in wanted if one.done() and not _is_spent(one)]

    async def close(self) -> None:
        self._is_closed = True
        opening, self._opening = self._opening, {}
        for one in opening.values():
            one.cancel()
        for opened in await asyncio.gather(*opening.values(), return_exceptions=True):
            if isinstance(opened, Connection):
                opened.close()


def _is_spent(opening: asyncio.Task[Connection]) -> bool:
    if not opening.done():
        return False
    return opening.cancelled() or opening.exception() is not None or not opening.result().is_open
