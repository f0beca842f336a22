"""At least once: the offset is committed after the work, and what cannot be worked on goes to a dead-letter topic.

The worker crashes after its work and before the commit. Its successor gets that record again: nothing is lost, one
record is worked on twice, so the work must bear repetition. A poison record is moved aside with the reason and its
origin as headers, and the offset behind it is committed only when the dead-letter topic has it.
"""

import json
import sys
from collections import Counter

from confluent_kafka import Consumer, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

TOPIC, DEAD_LETTERS, GROUP, COUNT = "orders", "orders.dlq", "orders-billing", 20
POISON = 13


class Crash(Exception):
    pass


def produce(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for created in admin.create_topics([NewTopic(TOPIC, 1, 1), NewTopic(DEAD_LETTERS, 1, 1)]).values():
        created.result(10)
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(COUNT):
        body = json.dumps({"order": number, "cents": 100}) if number != POISON else "{broken"
        producer.produce(TOPIC, body, key=str(number))
    producer.flush(10)


def bill(message: Message, billed: Counter[int]) -> None:
    order = json.loads(message.value())
    billed[order["order"]] += 1


def set_aside(producer: Producer, message: Message, problem: Exception) -> None:
    """The record as it was; why it is here and where it came from travel as headers."""
    headers = [
        *(message.headers() or []),
        ("dlq.error", repr(problem).encode()),
        ("dlq.topic", message.topic().encode()),
        ("dlq.partition", str(message.partition()).encode()),
        ("dlq.offset", str(message.offset()).encode()),
    ]
    producer.produce(DEAD_LETTERS, message.value(), key=message.key(), headers=headers)
    if producer.flush(10):
        raise RuntimeError("the dead letter could not be delivered")


def work(bootstrap: str, billed: Counter[int], crash_after: bytes | None) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": GROUP,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 6000,
        }
    )
    consumer.subscribe([TOPIC])
    try:
        while (message := consumer.poll(5)) is not None:
            if message.error():
                raise RuntimeError(message.error())
            try:
                bill(message, billed)  # first the work …
            except ValueError as problem:
                set_aside(producer, message, problem)
            if message.key() == crash_after:
                raise Crash(crash_after.decode())
            consumer.commit(message, asynchronous=False)  # … then the offset
            if message.key() == str(COUNT - 1).encode():
                return
    finally:
        consumer.close()


def main(bootstrap: str) -> None:
    produce(bootstrap)
    billed: Counter[int] = Counter()
    try:
        work(bootstrap, billed, crash_after=b"7")
    except Crash as crash:
        print(f"crashed after the work on order {crash}, before its commit")
    work(bootstrap, billed, crash_after=None)
    missing = [number for number in range(COUNT) if number not in billed]
    twice = [order for order, count in billed.items() if count > 1]
    print(f"billed {len(billed)} of {COUNT} orders, billed twice {twice}, in the dead-letter topic {missing}")
    assert (missing, twice) == ([POISON], [7])


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092")
