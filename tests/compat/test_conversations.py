"""Answers field by field, in every version, against what Apache Kafka was recorded to say."""

from __future__ import annotations

import pytest

from .brokers import Broker
from .conversations import all_conversations, differences, hold, recorded


@pytest.mark.parametrize("name", sorted(all_conversations()))
def test_node_answers_like_kafka(broker: Broker, name: str) -> None:
    found = hold(all_conversations()[name], broker.host, broker.port)
    lines = differences(recorded(name), found)
    assert not lines, f"{len(lines)} differences\n" + "\n".join(lines)
