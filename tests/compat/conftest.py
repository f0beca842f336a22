"""The node under test: Ottla, or Apache Kafka (`--peer kafka`, or OTTLA_PEER=kafka|both in the environment)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from .brokers import Broker, discard, make_broker
from .group_node import QUICK
from .java import Missing
from .raw import Raw

PEERS = {"ottla": ["ottla"], "kafka": ["kafka"], "both": ["kafka", "ottla"]}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--peer", choices=sorted(PEERS), default=None, help="which node the compatibility tests talk to")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "target" in metafunc.fixturenames:
        peer = metafunc.config.getoption("--peer", default=None) or os.environ.get("OTTLA_PEER", "ottla")
        metafunc.parametrize("target", PEERS[peer], scope="session")


@pytest.fixture(scope="session")
def broker(target: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One running node for all tests that leave it as they found it."""
    node = make_broker(target, tmp_path_factory.mktemp(target))
    start(node)
    yield node
    discard(node)


@pytest.fixture(scope="session")
def group_broker(target: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One running node whose groups rebalance at once and miss the dead soon."""
    node = make_broker(target, tmp_path_factory.mktemp(f"groups-{target}"), QUICK)
    start(node)
    yield node
    discard(node)


@pytest.fixture
def new_broker(target: str, tmp_path: Path) -> Iterator[Callable[..., Broker]]:
    """Nodes of one's own, to stop, kill and restart; already started."""
    made: list[Broker] = []

    def make(settings: Mapping[str, str] | None = None) -> Broker:
        node = make_broker(target, tmp_path / f"node-{len(made)}", settings)
        made.append(node)
        start(node)
        return node

    yield make
    for node in made:
        discard(node)


def start(node: Broker) -> None:
    try:
        node.start()
    except Missing as missing:
        pytest.skip(str(missing))


@pytest.fixture
def raw(broker: Broker) -> Iterator[Raw]:
    with Raw(broker.host, broker.port) as connection:
        yield connection


@pytest.fixture
def bootstrap(broker: Broker) -> str:
    return broker.bootstrap
