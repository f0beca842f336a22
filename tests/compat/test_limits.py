"""Settings of the node that bound what a client may do."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from .batches import batch
from .brokers import Broker
from .raw import Raw
from .wire import Closed, Wire

NewBroker = Callable[[dict[str, str]], Broker]
SECONDS_MAX = 20


@contextmanager
def talking(broker: Broker) -> Iterator[Raw]:
    with Raw(broker.host, broker.port) as raw:
        yield raw


def answers(wire: Wire) -> bool:
    try:
        return bool(wire.ask("api_versions", 0)["error_code"] == 0)
    except (Closed, ConnectionError):
        return False


def test_request_larger_than_the_limit_closes_the_connection(new_broker: NewBroker) -> None:
    broker = new_broker({"socket.request.max.bytes": "100000"})
    with talking(broker) as raw:
        topic = raw.create()
        assert raw.produce(topic, batch(b"x" * 90_000))["error_code"] == 0
        raw.socket.sendall(struct.pack(">i", 100_001))
        assert not answers(raw)
    with talking(broker) as raw:
        assert answers(raw)


def test_idle_connection_is_closed_and_a_busy_one_is_not(new_broker: NewBroker) -> None:
    broker = new_broker({"connections.max.idle.ms": "1000"})
    with talking(broker) as idle, talking(broker) as busy:
        idle.socket.settimeout(0.05)
        deadline = time.monotonic() + SECONDS_MAX
        while True:
            assert answers(busy)
            assert time.monotonic() < deadline, "the idle connection is still open"
            try:
                assert idle.socket.recv(1) == b""
                break
            except TimeoutError:
                continue


def test_connections_of_one_address_are_limited(new_broker: NewBroker) -> None:
    broker = new_broker({"max.connections.per.ip": "5"})
    deadline = time.monotonic() + SECONDS_MAX
    with ExitStack() as held:
        lines: list[Wire] = []
        while len(lines) < 5:
            line = held.enter_context(Wire(broker.host, broker.port))
            if answers(line):
                lines.append(line)
            assert time.monotonic() < deadline
        with Wire(broker.host, broker.port) as sixth:
            assert not answers(sixth)
        assert all(answers(line) for line in lines)
        lines.pop().socket.close()
        while True:
            with Wire(broker.host, broker.port) as again:
                if answers(again):
                    break
            assert time.monotonic() < deadline


def test_nothing_is_created_by_asking_where_that_is_forbidden(new_broker: NewBroker) -> None:
    broker = new_broker({"auto.create.topics.enable": "false"})
    with talking(broker) as raw:
        for _ in range(3):
            found = raw.ask("metadata", 4, topics=[{"name": "asked"}], allow_auto_topic_creation=True)["topics"]
            assert [(topic["name"], topic["error_code"]) for topic in found] == [("asked", 3)]
        assert raw.produce("asked", batch(b"v"))["error_code"] == 3
        assert raw.ask("metadata", 4, topics=None)["topics"] == []


def test_defaults_of_topics_come_from_the_node(new_broker: NewBroker) -> None:
    broker = new_broker({"num.partitions": "3", "log.segment.bytes": "2000000", "message.max.bytes": "500"})
    with talking(broker) as raw:
        name = raw.name()
        wanted = {"name": name, "num_partitions": -1, "replication_factor": -1}
        answer = raw.ask("create_topics", 5, timeout=20_000, topics=[wanted])["topics"][0]
        assert answer["num_partitions"] == 3
        raw.wait_ready(name, 3)
        keys = ["segment.bytes", "max.message.bytes"]
        asked = [{"resource_type": 2, "resource_name": name, "configuration_keys": keys}]
        described = raw.ask("describe_configs", 4, resources=asked, include_synonyms=True)["results"][0]["configs"]
        shown = {entry["name"]: (entry["value"], entry["config_source"]) for entry in described}
        assert shown == {"segment.bytes": ("2000000", 4), "max.message.bytes": ("500", 4)}
        assert raw.produce(name, batch(b"x" * 600))["error_code"] == 10


def test_producer_is_served_while_a_thousand_connections_come_and_go(broker: Broker) -> None:
    """A node that leaks a little a connection shows it here."""
    with talking(broker) as raw:
        topic = raw.create()
        for at in range(1000):
            with socket.create_connection((broker.host, broker.port)):
                pass
            if at % 100 == 0:
                raw.append(topic, b"v")
        assert raw.list_offset(topic, -1)["offset"] == 10
