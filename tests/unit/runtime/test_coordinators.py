"""Where clients are sent: to a coordinator that will answer."""

import asyncio
from typing import Any

from ottla.core.metadata.asks import NewTopic
from ottla.runtime.coordinators import Coordinators
from tests.unit.broker.cluster import CoreController, one_node


class OpeningReplicas:
    """Partitions take their time to open."""

    def __init__(self) -> None:
        self.is_asked, self.is_open = asyncio.Event(), asyncio.Event()

    def watch(self, topic: str, on_led: object, on_lost: object) -> None: ...

    async def opened(self, topic: str) -> None:
        self.is_asked.set()
        await self.is_open.wait()


def coordinators_of(controller: CoreController, replicas: OpeningReplicas) -> Coordinators[Any]:
    topic = NewTopic("__keepers", 3, 1)
    return Coordinators(topic, controller, replicas, None, None)  # type: ignore[arg-type]


def test_nobody_is_sent_to_a_coordinator_whose_partitions_are_still_being_opened() -> None:
    async def run() -> None:
        controller, _ = one_node()
        replicas = OpeningReplicas()
        coordinators = coordinators_of(controller, replicas)
        first = asyncio.create_task(coordinators.node_of("a"))
        await replicas.is_asked.wait()
        second = asyncio.create_task(coordinators.node_of("b"))
        for _ in range(10):
            await asyncio.sleep(0)
        assert not first.done() and not second.done()
        replicas.is_open.set()
        assert await asyncio.gather(first, second) == [1, 1]

    asyncio.run(run())


def test_the_topic_is_made_once() -> None:
    async def run() -> None:
        controller, _ = one_node()
        replicas = OpeningReplicas()
        replicas.is_open.set()
        coordinators = coordinators_of(controller, replicas)
        assert await asyncio.gather(*(coordinators.node_of(str(key)) for key in range(5))) == [1] * 5
        topic = controller.image.topics_by_name["__keepers"]
        assert await coordinators.node_of("later") == 1
        assert controller.image.topics_by_name["__keepers"] is topic

    asyncio.run(run())
