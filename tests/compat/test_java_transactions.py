"""Apache Kafka's own tool for transactions, as an operator uses it."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaException, Producer

from .java import Missing, kafka_libs, run_kafka
from .names import unique
from .raw import Raw

pytestmark = pytest.mark.peers
TOOL = "org.apache.kafka.tools.TransactionsCommand"


@pytest.fixture(autouse=True, scope="module")
def jars() -> None:
    try:
        kafka_libs()
    except Missing as missing:
        pytest.skip(str(missing))


def left_open(bootstrap: str, topic: str) -> Producer:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": unique("open")})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"x")
    assert producer.flush(30) == 0
    return producer


def test_transactions_are_listed_described_and_ended_by_an_operator(bootstrap: str, raw: Raw) -> None:
    def tool(*arguments: str, code: int = 0) -> str:
        done = run_kafka(TOOL, "--bootstrap-server", bootstrap, *arguments)
        assert done.returncode == code, f"{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    topic = raw.create()
    place = ("--topic", topic, "--partition", "0")
    producers = [left_open(bootstrap, topic) for _ in range(2)]
    names = [row.split()[0] for row in tool("list").splitlines() if row.startswith("open") and "Ongoing" in row]
    assert len(names) == len(producers)
    assert names[1] not in tool("list", "--transactional-id-pattern", names[0])
    shown = tool("describe", "--transactional-id", names[0])
    assert "Ongoing" in shown and f"{topic}-0" in shown
    assert "could not be found" in tool("describe", "--transactional-id", "nobody", code=1)
    assert f"{topic}\t" not in tool("find-hanging", "--topic", topic, "--max-transaction-timeout", "0")
    assert raw.list_offset(topic, -1, isolation_level=1)["offset"] == 0

    tool("abort", *place, "--start-offset", "0")
    assert raw.list_offset(topic, -1, isolation_level=1)["offset"] == 1
    for name in names:
        tool("forceTerminateTransaction", "--transactionalId", name)
    assert raw.list_offset(topic, -1, isolation_level=1)["offset"] == raw.list_offset(topic, -1)["offset"]
    assert tool("describe-producers", *place).count("None") == 2
    for producer in producers:
        with pytest.raises(KafkaException):
            producer.commit_transaction(30)
