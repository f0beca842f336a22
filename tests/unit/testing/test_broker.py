import asyncio
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource

from ottla.base.errors import Refused
from ottla.base.settings import BadSetting
from ottla.testing import AsyncBroker, Broker


def topics_of(bootstrap: str) -> dict[str, int]:
    metadata = AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=10)
    return {name: len(topic.partitions) for name, topic in metadata.topics.items()}


def send(bootstrap: str, topic: str, values: list[str]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(10) == 0


def read(bootstrap: str, topic: str, count: int) -> list[str]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    values: list[str] = []
    while len(values) < count:
        message = consumer.poll(10)
        assert message is not None and message.error() is None
        values.append((message.value() or b"").decode())
    consumer.close()
    return values


def test_a_client_writes_and_reads() -> None:
    with Broker(topics=["orders"]) as broker:
        assert broker.bootstrap == f"{broker.host}:{broker.port}"
        send(broker.bootstrap, "orders", ["a", "b", "c"])
        assert read(broker.bootstrap, "orders", 3) == ["a", "b", "c"]


def test_topics_are_there_with_their_partitions_before_the_first_client() -> None:
    with Broker(topics={"one": 1, "three": 3}) as broker:
        broker.create_topic("later", partitions=2, config={"retention.ms": 1000})
        assert topics_of(broker.bootstrap) == {"one": 1, "three": 3, "later": 2}


def test_settings_are_kafkas() -> None:
    with Broker(settings={"num.partitions": 4, "auto.create.topics.enable": True}) as broker:
        send(broker.bootstrap, "made-on-demand", ["x"])
        assert topics_of(broker.bootstrap) == {"made-on-demand": 4}


@pytest.mark.parametrize(("settings", "delay"), [({}, "0"), ({"group.initial.rebalance.delay.ms": 700}, "700")])
def test_a_group_of_one_begins_at_once_unless_told_otherwise(settings: dict[str, int], delay: str) -> None:
    with Broker(settings=settings) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        [future] = admin.describe_configs([ConfigResource(ConfigResource.Type.BROKER, "1")]).values()
        assert future.result(10)["group.initial.rebalance.delay.ms"].value == delay


def test_a_directory_of_ones_own_outlives_the_broker(tmp_path: Path) -> None:
    with Broker(topics=["orders"], data_dir=tmp_path) as broker:
        send(broker.bootstrap, "orders", ["kept"])
    with Broker(data_dir=tmp_path) as broker:
        assert read(broker.bootstrap, "orders", 1) == ["kept"]


def test_two_brokers_run_side_by_side() -> None:
    with Broker(topics=["left"]) as left, Broker(topics=["right"]) as right:
        assert topics_of(left.bootstrap) == {"left": 1}
        assert topics_of(right.bootstrap) == {"right": 1}


def test_nothing_is_left_behind() -> None:
    before = set(threading.enumerate())
    with Broker() as broker:
        directory = Path(broker._broker._temporary.name)  # type: ignore[union-attr]
        assert directory.is_dir()
    assert not directory.exists()
    assert set(threading.enumerate()) == before
    with pytest.raises(RuntimeError, match="not running"):
        _ = broker.bootstrap
    broker.stop()  # once more does nothing


def test_a_stopped_broker_starts_again(tmp_path: Path) -> None:
    broker = Broker(data_dir=tmp_path).start()
    broker.stop()
    with broker:
        assert topics_of(broker.bootstrap) == {}


def test_a_broker_is_started_once_at_a_time() -> None:
    with Broker() as broker, pytest.raises(RuntimeError, match="already"):
        broker.start()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"settings": {"no.such.setting": 1}}, BadSetting),
        ({"listen": "127.0.0.1:not-a-port"}, BadSetting),
        ({"data_dir": "/dev/null/nowhere"}, OSError),
        ({"topics": ["bad name"]}, Refused),
    ],
)
def test_a_broker_that_cannot_start_says_why_and_leaves_nothing(
    options: dict[str, object], problem: type[Exception]
) -> None:
    before = set(threading.enumerate())
    with pytest.raises(problem):
        Broker(**options).start()  # type: ignore[arg-type]
    assert set(threading.enumerate()) == before


def test_a_broker_leaves_the_descriptors_of_its_process_to_others() -> None:
    held = len(list(Path("/dev/fd").iterdir()))
    partitions = 150
    with Broker(topics={"wide": partitions}) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        for partition in range(partitions):
            producer.produce("wide", b"one", partition=partition)
        assert producer.flush(20) == 0
        assert len(list(Path("/dev/fd").iterdir())) - held < partitions * 3


def test_the_async_broker_runs_on_the_loop_of_the_test() -> None:
    async def scenario() -> dict[str, int]:
        async with AsyncBroker(topics=["orders"]) as broker:
            await broker.create_topic("more", 2)
            return await asyncio.to_thread(topics_of, broker.bootstrap)

    assert asyncio.run(scenario()) == {"orders": 1, "more": 2}


def test_importing_it_imports_no_node_and_no_client() -> None:
    heavy = "{'asyncio', 'uvloop', 'structlog', 'confluent_kafka', 'typer', 'rich', 'ottla.broker', 'ottla.wire'}"
    code = f"import sys, ottla.testing; sys.exit(' '.join(sorted({heavy} & sys.modules.keys())) or 0)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
