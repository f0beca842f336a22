"""A node for the client to talk to, and event loops of both kinds to run on."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

import pytest
import uvloop

from ottla.testing import Broker

T = TypeVar("T")
Run = Callable[[Coroutine[Any, Any, T]], T]
SECONDS_MAX = 30.0

SETTINGS = {
    "offsets.topic.num.partitions": 2,
    "transaction.state.log.num.partitions": 2,
    "transaction.two.phase.commit.enable": True,
    "auto.create.topics.enable": False,
}


@pytest.fixture(scope="session")
def node() -> Iterator[Broker]:
    with Broker(settings=SETTINGS) as broker:
        yield broker


@pytest.fixture
def topic(node: Broker, request: pytest.FixtureRequest) -> str:
    """Of three partitions, and of this test alone."""
    name = "".join(char if char.isalnum() else "-" for char in request.node.name)
    node.create_topic(name, 3)
    return name


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run[Any]:
    def call(work: Coroutine[Any, Any, T]) -> T:
        with asyncio.Runner(loop_factory=request.param) as runner:
            return runner.run(asyncio.wait_for(work, SECONDS_MAX))

    return call
