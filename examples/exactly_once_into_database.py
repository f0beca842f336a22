"""Exactly once into a database: the result and the offset are written in one transaction of the database.

The log can be read again from any offset, so whoever owns the result may own the offset too. The worker crashes at the
worst moments, before and after the database has committed; the sums are right all the same. The idempotent producer
does its part: a batch that it has to send again is stored once.
"""

import sqlite3
import sys
import tempfile
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

TOPIC, PARTITIONS, COUNT = "transfers", 3, 60


class Crash(Exception):
    pass


def produce(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(10)
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for number in range(COUNT):
        producer.produce(TOPIC, str(number), partition=number % PARTITIONS)
    producer.flush(10)


def open_database(path: Path) -> sqlite3.Connection:
    database = sqlite3.connect(path)
    with database:
        database.execute("CREATE TABLE IF NOT EXISTS total (cents INTEGER NOT NULL, records INTEGER NOT NULL)")
        database.execute("CREATE TABLE IF NOT EXISTS progress (partition INTEGER PRIMARY KEY, offset INTEGER NOT NULL)")
        if database.execute("SELECT count(*) FROM total").fetchone() == (0,):
            database.execute("INSERT INTO total VALUES (0, 0)")
    return database


def work(bootstrap: str, path: Path, crash_at: int, crash_before_commit: bool) -> None:
    database = open_database(path)
    progress = dict(database.execute("SELECT partition, offset FROM progress").fetchall())
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False})
    consumer.assign([TopicPartition(TOPIC, index, progress.get(index, 0)) for index in range(PARTITIONS)])
    try:
        while (message := consumer.poll(2)) is not None:
            if message.error():
                raise RuntimeError(message.error())
            value = int(message.value())
            with database:  # all of this, or none of it
                database.execute("UPDATE total SET cents = cents + ?, records = records + 1", (value,))
                database.execute(
                    "INSERT INTO progress VALUES (?, ?) ON CONFLICT (partition) DO UPDATE SET offset = excluded.offset",
                    (message.partition(), message.offset() + 1),
                )
                if value == crash_at and crash_before_commit:
                    raise Crash(f"before record {value} was committed")
            if value == crash_at:
                raise Crash(f"after record {value} was committed")
    finally:
        consumer.close()
        database.close()


def main(bootstrap: str) -> None:
    produce(bootstrap)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "totals.sqlite"
        for crash_at, crash_before_commit in ((10, True), (25, False), (40, True), (-1, False)):
            try:
                work(bootstrap, path, crash_at, crash_before_commit)
            except Crash as crash:
                print(f"crashed {crash}")
        database = open_database(path)
        cents, records = database.execute("SELECT cents, records FROM total").fetchone()
        database.close()
    print(f"{records} records with a sum of {cents}; {COUNT} with {sum(range(COUNT))} were sent")
    assert (cents, records) == (sum(range(COUNT)), COUNT)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092")
