"""At most once: the offset is committed before the record is worked on.

The worker crashes in the middle of its work. Its successor begins behind the record that was under way: that one is
lost, and no record is worked on twice. Right for data of which there is always more: metrics, positions, heartbeats.
"""

import sys
from collections import Counter

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

TOPIC, GROUP, COUNT = "readings", "readings-dashboard", 20


class Crash(Exception):
    pass


def produce(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(10)
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(COUNT):
        producer.produce(TOPIC, str(number))
    producer.flush(10)


def work(bootstrap: str, done: Counter[str], crash_at: str | None) -> None:
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
            consumer.commit(message, asynchronous=False)  # first the offset …
            value = message.value().decode()
            if value == crash_at:
                raise Crash(value)
            done[value] += 1  # … then the work
            if value == str(COUNT - 1):
                return
    finally:
        consumer.close()


def main(bootstrap: str) -> None:
    produce(bootstrap)
    done: Counter[str] = Counter()
    try:
        work(bootstrap, done, crash_at="7")
    except Crash as crash:
        print(f"crashed while working on record {crash}")
    work(bootstrap, done, crash_at=None)
    lost = [str(number) for number in range(COUNT) if str(number) not in done]
    twice = [value for value, count in done.items() if count > 1]
    print(f"worked on {len(done)} of {COUNT} records, lost {lost}, worked on twice {twice}")
    assert (lost, twice) == (["7"], [])


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092")
