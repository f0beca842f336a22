"""Word count, the first example of Kafka Streams, as a pipeline in SQL: transformations/word_count.sql.

This script makes the two topics anew, writes lines, runs the pipeline once (`ottla pipeline run --once`), and counts by
itself, too. The output topic is compacted, as in the original: its last record for a word is the count. Stop the
pipeline and start it again, or kill it: it goes on with the counts it had, and no line counts twice.
"""

import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

LINES, COUNTS = "streams-plaintext-input", "streams-wordcount-output"
RHYME = (
    "All streams lead to the log",
    "Hello log, hello streams",
    "To count the words, read the log",
)
REPEATS = 100
SECONDS_MAX = 240


def make_topics(bootstrap: str) -> None:
    """Anew: what an earlier run has left is deleted."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    left = list(admin.list_topics(timeout=10).topics.keys() & {LINES, COUNTS})
    for deleted in admin.delete_topics(left).values() if left else ():
        deleted.result(10)
    topics = [NewTopic(LINES, 1, 1), NewTopic(COUNTS, 1, 1, config={"cleanup.policy": "compact"})]
    for created in admin.create_topics(topics).values():
        created.result(10)


def produce(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for line in RHYME * REPEATS:
        producer.produce(LINES, line)
    assert producer.flush(10) == 0


def run_pipeline(bootstrap: str) -> None:
    """On a copy, so that checkpoints of a trial do not stay in the project."""
    with tempfile.TemporaryDirectory() as directory:
        project = Path(directory, "word_count")
        shutil.copytree(Path(__file__).parent, project)
        command = [sys.executable, "-m", "ottla", "pipeline", "run", str(project), "--once", "--bootstrap", bootstrap]
        subprocess.run(command, check=True, timeout=SECONDS_MAX)


def read_counts(bootstrap: str) -> tuple[dict[str, int], int]:
    """The last count of each word, and how many records told of it."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "unused", "enable.partition.eof": True}
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(COUNTS, 0, 0)])
    counts: dict[str, int] = {}
    records = 0
    while (message := consumer.poll(10)) is not None and not message.error():
        counts[message.key().decode()] = int(message.value())
        records += 1
    assert message is not None and message.error().code() == KafkaError._PARTITION_EOF, "the topic does not end"
    consumer.close()
    return counts, records


def main(bootstrap: str) -> None:
    make_topics(bootstrap)
    produce(bootstrap)
    run_pipeline(bootstrap)
    counts, records = read_counts(bootstrap)
    words = " ".join(RHYME).lower().replace(",", "").split()
    print(f"{len(counts)} words, {sum(counts.values())} times, told in {records} records; the most frequent:")
    for word, count in Counter(counts).most_common(3):
        print(f"   {word} {count}")
    assert counts == Counter(words * REPEATS)


if __name__ == "__main__":
    main(*(sys.argv[1:] or ["127.0.0.1:9092"]))
