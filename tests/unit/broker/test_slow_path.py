"""Without uvloop, and without sendfile, everything is slower and nothing is different."""

import asyncio
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from ottla.base.broker_settings import BrokerConfig
from ottla.broker.server import Node
from ottla.runtime.loop import run


@contextmanager
def node_in_thread(directory: Path, *, sendfile: bool, use_uvloop: bool) -> Iterator[str]:
    started: dict[str, object] = {}
    is_ready = threading.Event()

    async def main() -> None:
        config = BrokerConfig.from_texts({"listeners": "127.0.0.1:0"}, log_dirs=(directory,))
        node = Node(config, sendfile=sendfile)
        await node.start()
        stop = asyncio.Event()
        started.update(bootstrap=node.bootstrap, loop=asyncio.get_running_loop(), stop=stop)
        is_ready.set()
        await stop.wait()
        await node.stop()

    thread = threading.Thread(target=lambda: run(main(), use_uvloop=use_uvloop))
    thread.start()
    assert is_ready.wait(20)
    try:
        yield str(started["bootstrap"])
    finally:
        loop, stop = started["loop"], started["stop"]
        assert isinstance(loop, asyncio.AbstractEventLoop)
        assert isinstance(stop, asyncio.Event)
        loop.call_soon_threadsafe(stop.set)
        thread.join(20)
        assert not thread.is_alive()


@pytest.mark.parametrize("use_uvloop", [True, False], ids=["uvloop", "asyncio"])
@pytest.mark.parametrize("sendfile", [True, False], ids=["sendfile", "copying"])
def test_records_come_back_as_they_went(tmp_path: Path, sendfile: bool, use_uvloop: bool) -> None:
    values = [os.urandom(size) for size in (1, 100, 10_000, 900_000)] * 5
    with node_in_thread(tmp_path, sendfile=sendfile, use_uvloop=use_uvloop) as bootstrap:
        producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 1})
        for value in values:
            producer.produce("slow", value, partition=0)
        assert producer.flush(20) == 0
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False})
        consumer.assign([TopicPartition("slow", 0, OFFSET_BEGINNING)])
        seen: list[bytes | None] = []
        while len(seen) < len(values):
            messages = consumer.consume(len(values) - len(seen), timeout=20)
            assert messages, f"{len(seen)} of {len(values)} records came"
            seen += [message.value() for message in messages]
        consumer.close()
    assert seen == values
