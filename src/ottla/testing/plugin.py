"""The pytest plugin: every project that has Ottla installed gets these fixtures.

    def test_orders_are_sent(ottla_broker, ottla_topic):
        producer = Producer({"bootstrap.servers": ottla_broker.bootstrap})

Settings of the node come from the project's pytest configuration: `ottla_settings = ["num.partitions=3"]`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ottla.testing.broker import Broker

_numbers = count(1)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("ottla_settings", "Broker settings of the ottla_broker fixture, as name=value.", type="linelist")


@pytest.fixture(scope="session")
def ottla_broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A running Ottla node for the whole test session; connect to `ottla_broker.bootstrap`."""
    from ottla.testing.broker import Broker

    with Broker(settings=_settings(request.config)) as broker:
        yield broker


@pytest.fixture
def ottla_topic(request: pytest.FixtureRequest, ottla_broker: Broker) -> str:
    """The name of a topic that this test has for itself, created with one partition."""
    stem = re.sub(r"[^a-zA-Z0-9._-]", "-", request.node.name)[:200]
    name = f"{stem}-{next(_numbers)}"
    ottla_broker.create_topic(name)
    return name


def _settings(config: pytest.Config) -> dict[str, str]:
    settings = {}
    for line in config.getini("ottla_settings"):
        name, separator, value = line.partition("=")
        if not separator:
            raise pytest.UsageError(f"ottla_settings takes name=value, not {line!r}")
        settings[name.strip()] = value.strip()
    return settings
