"""The requests of transactions field by field, in every version, against what Apache Kafka was recorded to say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .brokers import Broker, discard, make_broker
from .conftest import start
from .conversations import differences, recorded
from .conversations_transactions import transaction_conversations
from .transaction_talk import PROMPT, hold


@pytest.fixture(scope="module")
def prompt_broker(target: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A node of our own: what a cluster has agreed on is changed here, and changed back."""
    directory: Path = tmp_path_factory.mktemp(f"transactions-{target}")
    node = make_broker(target, directory, PROMPT)
    start(node)
    yield node
    discard(node)


LENGTHY = {"transactions_last_epochs", "transactions_last_epochs_of_old"}
NAMES = [
    pytest.param(name, marks=pytest.mark.peers) if name in LENGTHY else name
    for name in sorted(transaction_conversations())
]


@pytest.mark.parametrize("name", NAMES)
def test_coordinator_answers_like_kafka(prompt_broker: Broker, name: str) -> None:
    found = hold(transaction_conversations()[name], prompt_broker.host, prompt_broker.port)
    lines = differences(recorded(name), found)
    assert not lines, f"{len(lines)} differences\n" + "\n".join(lines)
