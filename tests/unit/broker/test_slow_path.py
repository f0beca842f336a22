"""Without uvloop, and without sendfile, everything is slower and nothing is different."""

import os
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from tests.unit.broker.running import running_node


@pytest.mark.parametrize("use_uvloop", [True, False], ids=["uvloop", "asyncio"])
@pytest.mark.parametrize("sendfile", [True, False], ids=["sendfile", "copying"])
def test_records_come_back_as_they_went(tmp_path: Path, sendfile: bool, use_uvloop: bool) -> None:
    values = [os.urandom(size) for size in (1, 100, 10_000, 900_000)] * 5
    with running_node(tmp_path, sendfile=sendfile, use_uvloop=use_uvloop) as node:
        producer = Producer({"bootstrap.servers": node.bootstrap, "linger.ms": 1})
        for value in values:
            producer.produce("slow", value, partition=0)
        assert producer.flush(20) == 0
        consumer = Consumer({"bootstrap.servers": node.bootstrap, "group.id": "none", "enable.auto.commit": False})
        consumer.assign([TopicPartition("slow", 0, OFFSET_BEGINNING)])
        seen: list[bytes | None] = []
        while len(seen) < len(values):
            messages = consumer.consume(len(values) - len(seen), timeout=20)
            assert messages, f"{len(seen)} of {len(values)} records came"
            seen += [message.value() for message in messages]
        consumer.close()
    assert seen == values
