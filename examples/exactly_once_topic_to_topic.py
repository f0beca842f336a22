"""Exactly once from topic to topic: what is written and how far was read are one transaction.

A worker reads orders and writes an invoice for each. For a batch of orders, the invoices and the offset behind the last
order become visible together, or not at all. The worker is killed twice (SIGKILL) in the middle of its work. Each time
its successor, which has the same `transactional.id`, has the cluster abort what was left half done, and goes on at the
last offset that was committed. Readers with `isolation.level=read_committed` find each invoice once.
"""

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

ORDERS, INVOICES, PARTITIONS, COUNT = "shop-orders", "shop-invoices", 3, 300
WORKER, BATCH = "invoicing-1", 20
SECONDS_MAX = 60


def invoice(cents: int) -> int:
    return cents + cents * 20 // 100


# --- the worker: read, process, write


def work(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": WORKER})
    producer.init_transactions()  # from here on there is no other WORKER; what it left open is aborted
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "invoicing",
            "group.instance.id": WORKER,  # a successor gets the partitions at once
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,  # the offsets travel in the transaction
            "isolation.level": "read_committed",  # if orders come in transactions, take whole ones only
        }
    )
    consumer.subscribe([ORDERS])
    while True:
        orders = consumer.consume(BATCH, timeout=1)
        if orders:
            transfer(consumer, producer, orders)


def transfer(consumer: Consumer, producer: Producer, orders: list[Message]) -> None:
    producer.begin_transaction()
    try:
        for order in orders:
            if order.error():
                raise KafkaException(order.error())
            time.sleep(0.01)  # the work
            producer.produce(INVOICES, str(invoice(int(order.value()))), key=order.key())
        behind = {(order.topic(), order.partition()): order.offset() + 1 for order in orders}
        offsets = [TopicPartition(*place, offset) for place, offset in behind.items()]
        again_while_it_helps(lambda: producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata()))
        again_while_it_helps(producer.commit_transaction)
    except KafkaException as failure:
        # A transaction that cannot be completed is aborted, and the orders are read again: perhaps the group has
        # changed, perhaps the cluster was away for too long. Any other error is the end of this producer; the usual
        # one says that somebody else has taken its name (it is "fenced"). Then nothing of this batch will ever count.
        if not failure.args[0].txn_requires_abort():
            raise
        again_while_it_helps(producer.abort_transaction)
        read_again(consumer)


def again_while_it_helps(call: Callable[[], object]) -> None:
    """An error that is retriable says nothing about the outcome: the same call finds out."""
    while True:
        try:
            call()
            return
        except KafkaException as failure:
            if not failure.args[0].retriable():
                raise


def read_again(consumer: Consumer) -> None:
    """The consumer does not know that its reading has not counted."""
    for place in consumer.committed(consumer.assignment()):
        consumer.seek(TopicPartition(place.topic, place.partition, max(place.offset, 0)))


# --- the rest: orders to begin with, somebody who kills the worker, and the proof


def produce(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = [NewTopic(ORDERS, PARTITIONS, 1), NewTopic(INVOICES, PARTITIONS, 1)]
    for created in admin.create_topics(topics).values():
        created.result(10)
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(COUNT):
        producer.produce(ORDERS, str(number * 100), key=str(number))
    producer.flush(10)


class Reader:
    """Reads all invoices from the beginning."""

    def __init__(self, bootstrap: str, isolation_level: str) -> None:
        settings = {"bootstrap.servers": bootstrap, "group.id": "unused", "isolation.level": isolation_level}
        self.consumer = Consumer(settings)
        self.consumer.assign([TopicPartition(INVOICES, index, 0) for index in range(PARTITIONS)])
        self.count_by_order: Counter[str] = Counter()
        self.cents = 0

    def read_until(self, count: int) -> None:
        deadline = time.monotonic() + SECONDS_MAX
        while self.count_by_order.total() < count:
            assert time.monotonic() < deadline, f"only {self.count_by_order.total()} of {count} invoices are there"
            self.read(0.1)

    def read(self, seconds: float) -> None:
        for message in self.consumer.consume(100, timeout=seconds):
            assert message.error() is None, message.error()
            self.count_by_order[message.key().decode()] += 1
            self.cents += int(message.value())


def main(bootstrap: str) -> None:
    produce(bootstrap)
    reader = Reader(bootstrap, "read_committed")
    for killed_after in (COUNT // 4, COUNT // 2, COUNT):
        worker = subprocess.Popen([sys.executable, __file__, bootstrap, "work"])
        try:
            reader.read_until(killed_after)
        finally:
            worker.kill()
        print(f"{reader.count_by_order.total()} invoices are committed; worker killed")
        worker.wait()
    reader.read(2)  # is there anything that should not be?
    everything = Reader(bootstrap, "read_uncommitted")
    everything.read_until(COUNT)
    everything.read(2)
    unfinished = everything.count_by_order.total() - COUNT
    print(f"{unfinished} more are in the log, of transactions that were aborted: readers of committed data skip them")
    missing = [number for number in range(COUNT) if str(number) not in reader.count_by_order]
    twice = [order for order, count in reader.count_by_order.items() if count > 1]
    expected = sum(invoice(number * 100) for number in range(COUNT))
    print(
        f"orders without an invoice: {missing}, with two: {twice}; the sum is {reader.cents} and should be {expected}"
    )
    assert (missing, twice, reader.cents) == ([], [], expected)


if __name__ == "__main__":
    arguments = sys.argv[1:] or ["127.0.0.1:9092"]
    if arguments[1:] == ["work"]:
        work(arguments[0])
    else:
        main(arguments[0])
