"""A topic into a Delta table, with a dead-letter topic: the pipeline is transformations/payments.sql and large.py.

This script makes the topics anew, writes payments and some records that are none, runs the pipeline once
(`ottla pipeline run --once`), and proves the sums: every record is in the table or among the dead letters, once.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from deltalake import DeltaTable

PAYMENTS, LARGE, DEAD = "to-delta-payments", "to-delta-payments.large", "to-delta-payments.dlq"
PARTITIONS, COUNT = 3, 10_000
NO_PAYMENTS = ("no json", '{"number": 7}', '{"number": 8, "cents": "many"}')
SECONDS_MAX = 240


def cents_of(number: int) -> int:
    return number * 7919 % 100_000


def make_topics(bootstrap: str) -> None:
    """Anew: what an earlier run has left is deleted."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    left = list(admin.list_topics(timeout=10).topics.keys() & {PAYMENTS, LARGE, DEAD})
    for deleted in admin.delete_topics(left).values() if left else ():
        deleted.result(10)
    for created in admin.create_topics([NewTopic(PAYMENTS, PARTITIONS, 1), NewTopic(LARGE), NewTopic(DEAD)]).values():
        created.result(10)


def produce(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    payments = [json.dumps({"number": number, "cents": cents_of(number)}) for number in range(COUNT)]
    for number, value in enumerate([*payments, *NO_PAYMENTS]):
        producer.produce(PAYMENTS, value, key=str(number))
    assert producer.flush(10) == 0


def run_pipeline(project: Path, bootstrap: str) -> None:
    command = [sys.executable, "-m", "ottla", "pipeline", "run", str(project), "--once", "--bootstrap", bootstrap]
    subprocess.run(command, check=True, timeout=SECONDS_MAX)


def read_all(bootstrap: str, topic: str) -> Iterator[Message]:
    settings = {"bootstrap.servers": bootstrap, "group.id": "unused", "enable.partition.eof": True}
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, 0, 0)])
    while (message := consumer.poll(10)) is not None and not message.error():
        yield message
    assert message is not None and message.error().code() == KafkaError._PARTITION_EOF, f"{topic} does not end"
    consumer.close()


def check_table(table: Path) -> None:
    rows = DeltaTable(table).to_pyarrow_table(columns=["number", "cents"]).to_pylist()
    print(f"in the table: {len(rows)} payments, {sum(row['cents'] for row in rows)} cents")
    assert sorted((row["number"], row["cents"]) for row in rows) == [(one, cents_of(one)) for one in range(COUNT)]


def check_topics(bootstrap: str) -> None:
    large = sorted(json.loads(message.value())["number"] for message in read_all(bootstrap, LARGE))
    print(f"{len(large)} of them are large")
    assert large == [number for number in range(COUNT) if cents_of(number) >= 90_000]
    letters = list(read_all(bootstrap, DEAD))
    for letter in letters:
        headers = {name: value.decode() for name, value in letter.headers()}
        print(f"dead letter {letter.value().decode()}: {headers['ottla.dlq.error']}")
    assert sorted(letter.value().decode() for letter in letters) == sorted(NO_PAYMENTS)


def main(bootstrap: str) -> None:
    make_topics(bootstrap)
    produce(bootstrap)
    with tempfile.TemporaryDirectory() as directory:
        # On a copy, so that the table and the checkpoints of a trial do not stay in the project.
        project = Path(directory, "to_delta")
        shutil.copytree(Path(__file__).parent, project)
        run_pipeline(project, bootstrap)
        check_table(project / "lake" / "payments")
    check_topics(bootstrap)


if __name__ == "__main__":
    main(*(sys.argv[1:] or ["127.0.0.1:9092"]))
