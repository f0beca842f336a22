"""One node for all sieges of this process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.compat.brokers import Broker, OttlaBroker, discard

from .siege import Siege


@pytest.fixture(scope="session")
def besieged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    node = OttlaBroker(tmp_path_factory.mktemp("siege"))
    node.start()
    yield node
    discard(node)


@pytest.fixture
def siege(besieged: Broker) -> Iterator[Siege]:
    under_siege = Siege(besieged)
    yield under_siege
    under_siege.end()
