"""What a node does from time to time, to the topics whose settings ask for it."""

import time
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.unit.broker.running import running_node


def test_only_a_topic_with_a_time_to_flush_goes_to_the_disk_by_itself(tmp_path: Path) -> None:
    with running_node(tmp_path) as node:
        admin = AdminClient({"bootstrap.servers": node.bootstrap})
        topics = [NewTopic("soon", 2, 1, config={"flush.ms": "100"}), NewTopic("never", 2, 1)]
        for created in admin.create_topics(topics).values():
            created.result(20)
        producer = Producer({"bootstrap.servers": node.bootstrap})
        for topic in ("soon", "never"):
            for partition in range(2):
                producer.produce(topic, b"value", partition=partition)
        assert producer.flush(20) == 0
        soon = [node.replicas.find("soon", partition).log for partition in range(2)]
        deadline = time.monotonic() + 20
        while not all(log.recovery_point == 1 for log in soon):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert [node.replicas.find("never", partition).log.recovery_point for partition in range(2)] == [0, 0]
