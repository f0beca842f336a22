"""Alarms within milliseconds: a query in tail mode hands on each row as it comes, instead of waiting for a batch.

It is for queries that only map rows: filter, decode, enrich. What they write is committed every few seconds, each row
once as always. So there are two kinds of readers. Who reads committed rows alone has each alarm once, up to an epoch
later. Who must be quick, as whatever rings a bell, reads uncommitted ones, and may hear an alarm twice if the driver
dies.
"""

import json
import statistics
import sys
import tempfile
import threading
import time

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

import ottla.spark

READINGS, ALARMS = "tail-readings", "tail-alarms"
READING = "number BIGINT, celsius BIGINT, sent_ms DOUBLE"
COUNT, HOT = 400, 80
SECONDS_MAX = 120


def alarms(readings: DataFrame) -> DataFrame:
    return readings.where(F.col("celsius") >= HOT).select("number", "celsius", "sent_ms")


# --- input and output


def start(spark: SparkSession, bootstrap: str, checkpoint: str) -> StreamingQuery:
    source = {"kafka.bootstrap.servers": bootstrap, "subscribe": READINGS, "startingOffsets": "earliest"}
    records = spark.readStream.format("ottla").options(**source, mode="tail", epoch="2s").load()
    readings = records.select(F.from_json(F.col("value").cast("string"), READING).alias("row")).select("row.*")
    rows = alarms(readings).select(F.to_json(F.struct("*")).alias("value"))
    sink = {"kafka.bootstrap.servers": bootstrap, "topic": ALARMS, "checkpointLocation": checkpoint}
    return rows.writeStream.format("ottla").options(**sink).start()


# --- the rest: readings to begin with, and the proof


def celsius_of(number: int) -> int:
    return (number * 37 + HOT) % 100


HOT_ONES = [number for number in range(COUNT) if celsius_of(number) >= HOT]


def make_topics(bootstrap: str) -> None:
    """Anew: what an earlier run has left is deleted."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    left = list(admin.list_topics(timeout=10).topics.keys() & {READINGS, ALARMS})
    for deleted in admin.delete_topics(left).values() if left else ():
        deleted.result(10)
    for created in admin.create_topics([NewTopic(READINGS, 1, 1), NewTopic(ALARMS, 1, 1)]).values():
        created.result(10)


def produce(bootstrap: str, is_heard: threading.Event) -> None:
    """A reading every ten milliseconds; each says when it was sent. The second waits until the first was heard."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    for number in range(COUNT):
        reading = {"number": number, "celsius": celsius_of(number), "sent_ms": time.time() * 1000}
        producer.produce(READINGS, json.dumps(reading))
        producer.poll(0.01)
        is_heard.wait(SECONDS_MAX)
    assert producer.flush(10) == 0


def listen(bootstrap: str, isolation: str, is_heard: threading.Event) -> list[tuple[int, float]]:
    """The number of each alarm as it comes, and after how many milliseconds, until all are there."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "isolation.level": isolation})
    consumer.assign([TopicPartition(ALARMS, 0, 0)])
    found: list[tuple[int, float]] = []
    until = time.monotonic() + SECONDS_MAX
    while len({number for number, _ in found}) < len(HOT_ONES) and time.monotonic() < until:
        message = consumer.poll(1)
        if message is not None and not message.error():
            alarm = json.loads(message.value())
            found.append((alarm["number"], time.time() * 1000 - alarm["sent_ms"]))
            is_heard.set()
    consumer.close()
    return found


def main(bootstrap: str) -> None:
    make_topics(bootstrap)
    spark = ottla.spark.session("tail", config=ottla.spark.TAIL_SETTINGS)
    heard: list[tuple[int, float]] = []
    is_heard = threading.Event()
    with tempfile.TemporaryDirectory() as checkpoint:
        query = start(spark, bootstrap, checkpoint)
        bell = threading.Thread(target=lambda: heard.extend(listen(bootstrap, "read_uncommitted", is_heard)))
        bell.start()
        produce(bootstrap, is_heard)
        bell.join()
        committed = listen(bootstrap, "read_committed", is_heard)
        query.stop()

    print(f"half of the alarms were heard within {statistics.median(delay for _, delay in heard):.0f} ms")
    print(f"{len(committed)} alarms of {COUNT} readings, each once")
    assert sorted(number for number, _ in committed) == HOT_ONES


if __name__ == "__main__":
    main(*(sys.argv[1:] or ["127.0.0.1:9092"]))
