"""The metrics page, scraped from a running node."""

from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.unit.broker.running import running_node


def scrape(port: int) -> dict[str, float]:
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as page:
        lines = page.read().decode().splitlines()
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[0] != "#")}


def test_the_lag_of_a_group_is_what_it_has_not_committed(tmp_path: Path) -> None:
    with running_node(tmp_path, settings={"metrics.listener": "127.0.0.1:0"}) as node:
        producer = Producer({"bootstrap.servers": node.bootstrap})
        for number in range(10):
            producer.produce("work", str(number), partition=0)
        producer.flush(10)
        consumer = Consumer({"bootstrap.servers": node.bootstrap, "group.id": 'work"ers'})
        consumer.commit(offsets=[TopicPartition("work", 0, 7)], asynchronous=False)
        consumer.close()
        port = node.metrics_server.port
        metrics = scrape(port)
        assert metrics['ottla_group_lag{group="work\\"ers",topic="work",partition="0"}'] == 3
        assert metrics['ottla_group_committed_offset{group="work\\"ers",topic="work",partition="0"}'] == 7
        assert metrics['ottla_partition_high_watermark{topic="work",partition="0"}'] == 10
        assert metrics['ottla_requests_total{api="PRODUCE"}'] >= 1
        assert metrics[f'ottla_log_directory_online{{path="{tmp_path}"}}'] == 1
        with pytest.raises(HTTPError):
            urlopen(f"http://127.0.0.1:{port}/else", timeout=10)
