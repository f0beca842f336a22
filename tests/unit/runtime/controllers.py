"""Controllers for tests: one alone, or several that talk through memory."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

from ottla.base.errors import ErrorCode, Refused
from ottla.core.metadata.asks import BrokerHeartbeat, BrokerRegistration, Endpoint
from ottla.core.metadata.image import ClusterImage, ImageDelta
from ottla.core.quorum.messages import Message
from ottla.runtime.controller import Controller, ControllerPlace
from ottla.runtime.quorum_codec import Voter
from ottla.storage.files import Files

CLUSTER = "cluster-of-a-test-----"


def directory_id(node_id: int) -> bytes:
    return bytes(15) + bytes([node_id])


def place(directory: Path, **other: Any) -> ControllerPlace:
    values: dict[str, Any] = {
        "node_id": 1,
        "cluster_id": CLUSTER,
        "directory": directory,
        "directory_id": directory_id(other.get("node_id", 1)),
        "endpoints": (Endpoint("CONTROLLER", "localhost", 9093),),
        **other,
    }
    return ControllerPlace(**values)


def fail(error: BaseException) -> None:
    raise AssertionError(f"the metadata log failed: {error}")


@asynccontextmanager
async def running(
    directory: Path,
    settings: dict[str, str] | None = None,
    on_fatal: Callable[[BaseException], None] = fail,
    **other: Any,
) -> AsyncIterator[Controller]:
    """A quorum of one with its broker, which is registered and unfenced."""
    controller = Controller(place(directory, **other), settings or {}, on_fatal, random=Random(1))
    await controller.start()
    await join(controller)
    try:
        yield controller
    finally:
        await controller.stop()


async def join(controller: Controller, broker_id: int = 1, incarnation: bytes | None = None) -> int:
    ask = BrokerRegistration(
        broker_id,
        CLUSTER,
        incarnation or Random().randbytes(16),
        (Endpoint("PLAINTEXT", "localhost", 9092),),
        log_dirs=(directory_id(broker_id),),
    )
    epoch = await controller.register_broker(ask)
    await controller.broker_heartbeat(BrokerHeartbeat(broker_id, epoch, controller.metadata_offset))
    return epoch


async def until(controller: Controller, fact: Callable[[ClusterImage], bool]) -> None:
    """Wait for a fact in the image."""
    seen = asyncio.get_running_loop().create_future()

    def look(image: ClusterImage, _: ImageDelta) -> None:
        if fact(image) and not seen.done():
            seen.set_result(None)

    controller.subscribe(look)
    await seen


class Trio:
    """Three controllers on one loop; a message takes one turn of it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.members: dict[int, Controller] = {}
        self.fatal: list[BaseException] = []

    def make(self, node_id: int) -> Controller:
        others = tuple(Voter(id, directory_id(id)) for id in (1, 2, 3) if id != node_id)
        where = place(
            self.directory / str(node_id),
            node_id=node_id,
            others=others,
            send=self.post,
            files=Files(),
            election_timeout_ms=250,
            fetch_timeout_ms=900,
        )
        self.members[node_id] = Controller(where, {}, self.fatal.append, random=Random(node_id))
        return self.members[node_id]

    def post(self, message: Message) -> None:
        asyncio.get_running_loop().call_soon(self.deliver, message)

    def deliver(self, message: Message) -> None:
        member = self.members.get(message.target)
        if member is not None:
            member.receive(message)

    async def leader(self) -> Controller:
        while True:
            for member in self.members.values():
                if member.is_leader:
                    return member
            await asyncio.sleep(0.005)

    async def ask(self, command: Callable[[Controller], Coroutine[Any, Any, Any]]) -> Any:
        """Have the leader do it, whoever that is by then."""
        while True:
            try:
                return await command(await self.leader())
            except Refused as refusal:
                assert refusal.code in (ErrorCode.NOT_CONTROLLER, ErrorCode.DUPLICATE_BROKER_REGISTRATION)
                await asyncio.sleep(0.01)

    async def start(self) -> None:
        await asyncio.gather(*(self.make(node_id).start() for node_id in (1, 2, 3)))

    async def stop(self, node_id: int) -> None:
        await self.members.pop(node_id).stop()


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(main, 60))
