"""A topic as the tests of this room use it: written by librdkafka, read by it too, so that nobody checks himself."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

Row = tuple[int, int]
"""Partition and offset."""


@dataclass(frozen=True)
class Topic:
    bootstrap: str
    name: str

    @property
    def options(self) -> dict[str, str]:
        return {"kafka.bootstrap.servers": self.bootstrap, "subscribe": self.name}

    @property
    def sink(self) -> dict[str, str]:
        return {"kafka.bootstrap.servers": self.bootstrap, "topic": self.name}

    def produce(self, values: Iterable[object], partition: int = 0, **settings: object) -> None:
        producer = self.producer(**settings)
        for value in values:
            producer.produce(self.name, str(value).encode(), partition=partition)
        producer.flush()

    def producer(self, **settings: object) -> Producer:
        named = {name.replace("_", "."): value for name, value in settings.items()}
        return Producer({"bootstrap.servers": self.bootstrap, "log_level": 0, **named})

    def transact(self, values: Iterable[object], is_committed: bool, partition: int = 0) -> None:
        producer = self.producer(transactional_id=f"writer-of-{self.name}")
        producer.init_transactions(10)
        producer.begin_transaction()
        for value in values:
            producer.produce(self.name, str(value).encode(), partition=partition)
        if is_committed:
            producer.commit_transaction(10)
        else:
            producer.flush()
            producer.abort_transaction(10)

    def records(self, isolation: str = "read_committed") -> list[Message]:
        """All there are, by partition and offset."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "reader-of-tests",
                "isolation.level": isolation,
                "enable.partition.eof": True,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "log_level": 0,
            }
        )
        partitions = consumer.list_topics(self.name, 10).topics[self.name].partitions
        consumer.assign([TopicPartition(self.name, index, 0) for index in partitions])
        found, ended = [], 0
        while ended < len(partitions):
            message = consumer.poll(10)
            assert message is not None, f"{self.name} does not end"
            if message.error():
                ended += 1
            else:
                found.append(message)
        consumer.close()
        return sorted(found, key=lambda message: (message.partition(), message.offset()))

    def ends(self) -> dict[int, int]:
        """Where readers of committed records get to."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "watermarks", "log_level": 0})
        partitions = consumer.list_topics(self.name, 10).topics[self.name].partitions
        ends = {index: consumer.get_watermark_offsets(TopicPartition(self.name, index), 10)[1] for index in partitions}
        consumer.close()
        return ends

    def values(self, isolation: str = "read_committed") -> list[str]:
        return [(message.value() or b"").decode() for message in self.records(isolation)]

    def add_partitions(self, total: int) -> None:
        admin = self._admin()
        for done in admin.create_partitions([NewPartitions(self.name, total)]).values():
            done.result(10)

    def delete_records(self, before: Mapping[int, int]) -> None:
        wanted = [TopicPartition(self.name, index, offset) for index, offset in before.items()]
        admin = self._admin()
        for done in admin.delete_records(wanted).values():
            done.result(10)

    def delete(self) -> None:
        admin = self._admin()  # whoever drops it cancels what it was asked
        admin.delete_topics([self.name])[self.name].result(10)

    def progress_of(self, group: str) -> dict[int, int]:
        admin = self._admin()
        asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
        found: Any = asked[group].result(10).topic_partitions
        return {place.partition: place.offset for place in found if place.topic == self.name}

    def _admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
