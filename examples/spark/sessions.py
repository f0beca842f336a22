"""Sessions with `transformWithState`: clicks of a visitor belong together until half an hour passes without one.

Spark calls a processor of ours for each visitor. It keeps the session in state that Spark stores (RocksDB, with the
checkpoint), and sets a timer for the moment when half an hour has passed, in the time of the clicks themselves. When
the watermark has got there, the timer rings, and the session goes out. A session is written once, with its clicks.
"""

import json
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

import ottla.spark

CLICKS, SESSIONS = "sessions-clicks", "sessions-sessions"
CLICK = "visitor STRING, at TIMESTAMP, cents BIGINT"
OPEN = "first_ms BIGINT, last_ms BIGINT, clicks BIGINT, cents BIGINT"
SESSION = f"visitor STRING, {OPEN}"
GAP_MS = 30 * 60 * 1000
session_row = Row("visitor", "first_ms", "last_ms", "clicks", "cents")


class Sessions(StatefulProcessor):
    """One open session for each visitor at most: the clicks that are less than the gap apart."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self.open = handle.getValueState("open", OPEN)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        session = self.open.get() if self.open.exists() else None
        for click in sorted(rows, key=lambda row: row.at_ms):
            if session is not None and click.at_ms >= session[1] + GAP_MS:
                yield session_row(key[0], *session)
                session = None
            first, last, clicks, cents = session or (click.at_ms, click.at_ms, 0, 0)
            session = (min(first, click.at_ms), max(last, click.at_ms), clicks + 1, cents + click.cents)
        self.open.update(session)
        self._ring_at(session[1] + GAP_MS)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        yield session_row(key[0], *self.open.get())
        self.open.clear()

    def _ring_at(self, moment_ms: int) -> None:
        for timer in list(self.handle.listTimers()):
            self.handle.deleteTimer(timer)
        self.handle.registerTimer(moment_ms)


def sessions(clicks: DataFrame) -> DataFrame:
    clicks = clicks.withWatermark("at", "5 minutes").withColumn("at_ms", F.unix_millis("at"))
    return clicks.groupBy("visitor").transformWithState(
        statefulProcessor=Sessions(), outputStructType=SESSION, outputMode="Append", timeMode="EventTime"
    )


# --- input and output


def read(spark: SparkSession, bootstrap: str) -> DataFrame:
    options = {
        "kafka.bootstrap.servers": bootstrap,
        "subscribe": CLICKS,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": 200,  # several batches, so that sessions live in the state
    }
    records = spark.readStream.format("ottla").options(**options).load()
    return records.select(F.from_json(F.col("value").cast("string"), CLICK).alias("row")).select("row.*")


def write(rows: DataFrame, bootstrap: str, checkpoint: str) -> None:
    records = rows.select(F.col("visitor").alias("key"), F.to_json(F.struct("*")).alias("value"))
    options = {"kafka.bootstrap.servers": bootstrap, "topic": SESSIONS, "checkpointLocation": checkpoint}
    query = records.writeStream.format("ottla").options(**options).trigger(availableNow=True).start()
    query.awaitTermination()


# --- the rest: clicks to begin with, and the proof


VISITORS, ROUNDS = 20, 5


def clicks_of_everybody() -> list[tuple[str, int, int]]:
    """In each round every visitor clicks six times within 25 minutes; an hour is between the rounds."""
    return [
        (f"visitor-{visitor}", (round_ * 90 + click * 5) * 60 + visitor, visitor)
        for round_ in range(ROUNDS)
        for click in range(6)
        for visitor in range(VISITORS)
    ]


def make_topics(bootstrap: str) -> None:
    """Anew: what an earlier run has left is deleted."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    left = list(admin.list_topics(timeout=10).topics.keys() & {CLICKS, SESSIONS})
    for deleted in admin.delete_topics(left).values() if left else ():
        deleted.result(10)
    for created in admin.create_topics([NewTopic(CLICKS, 1, 1), NewTopic(SESSIONS, 1, 1)]).values():
        created.result(10)


def produce(bootstrap: str) -> None:
    """At last some clicks of somebody else, hours later: time goes on with them, and the last sessions are closed."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for visitor, second, cents in [*clicks_of_everybody(), *[("the last one", 100_000, 0)] * 400]:
        click = {"visitor": visitor, "at": 1_700_000_000 + second, "cents": cents}
        producer.produce(CLICKS, json.dumps(click))
    assert producer.flush(10) == 0


def main(bootstrap: str) -> None:
    make_topics(bootstrap)
    spark = ottla.spark.session("sessions")
    produce(bootstrap)
    with tempfile.TemporaryDirectory() as checkpoint:
        write(sessions(read(spark, bootstrap)), bootstrap, checkpoint)

    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": SESSIONS}
    records = spark.read.format("ottla").options(**options).load()
    found = [json.loads(row["value"]) for row in records.collect()]
    cents = sum(one["cents"] for one in found)
    print(f"{len(found)} sessions of {sum(one['clicks'] for one in found)} clicks, {cents} cents")
    expected = [(f"visitor-{visitor}", 6, 6 * visitor) for visitor in range(VISITORS)] * ROUNDS
    assert sorted((one["visitor"], one["clicks"], one["cents"]) for one in found) == sorted(expected)
    assert all(one["last_ms"] - one["first_ms"] == 25 * 60 * 1000 for one in found)


if __name__ == "__main__":
    main(*(sys.argv[1:] or ["127.0.0.1:9092"]))
