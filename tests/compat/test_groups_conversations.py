"""The group APIs field by field, in every version, against what Apache Kafka was recorded to say."""

from __future__ import annotations

import pytest

from .brokers import Broker
from .conversations import differences, recorded
from .conversations_groups import group_conversations, hold


@pytest.mark.parametrize("name", sorted(group_conversations()))
def test_coordinator_answers_like_kafka(group_broker: Broker, name: str) -> None:
    found = hold(group_conversations()[name], group_broker.host, group_broker.port)
    lines = differences(recorded(name), found)
    assert not lines, f"{len(lines)} differences\n" + "\n".join(lines)
