"""Enrich a stream by another: payments get the customer of their order, and the two may come in any order.

Both topics are streams. Spark keeps orders and payments until their partner has come, or until it could no longer be
in time: a payment counts within an hour of its order. The watermarks say how late a record may be; with them and the
hour, Spark knows when it may forget. Each payment of an order is in the result once, whatever happens to the driver,
because `format("ottla")` writes a batch exactly once.
"""

import sys
import tempfile

from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import ottla.spark

ORDERS, PAYMENTS, PAID = "join-orders", "join-payments", "join-paid-orders"
ORDER = "order BIGINT, customer STRING, ordered_at TIMESTAMP"
PAYMENT = "order BIGINT, cents BIGINT, paid_at TIMESTAMP"
COUNT = 2_000


def paid_orders(orders: DataFrame, payments: DataFrame) -> DataFrame:
    orders = orders.withWatermark("ordered_at", "30 minutes").alias("orders")
    payments = payments.withWatermark("paid_at", "30 minutes").alias("payments")
    is_same_order = F.col("orders.order") == F.col("payments.order")
    is_in_time = F.expr("paid_at BETWEEN ordered_at AND ordered_at + INTERVAL 1 HOUR")
    joined = orders.join(payments, is_same_order & is_in_time, how="inner")
    return joined.select("orders.order", "customer", "cents", "ordered_at", "paid_at")


# --- input and output


def read(spark: SparkSession, bootstrap: str, topic: str, columns: str) -> DataFrame:
    options = {
        "kafka.bootstrap.servers": bootstrap,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": COUNT // 2,  # several batches, so that partners meet through the state
    }
    records = spark.readStream.format("ottla").options(**options).load()
    return records.select(F.from_json(F.col("value").cast("string"), columns).alias("row")).select("row.*")


def write(rows: DataFrame, bootstrap: str, topic: str, checkpoint: str) -> None:
    """All that is there now, batch by batch. Without the trigger it would go on for ever."""
    records = rows.select(F.col("customer").alias("key"), F.to_json(F.struct("*")).alias("value"))
    options = {"kafka.bootstrap.servers": bootstrap, "topic": topic, "checkpointLocation": checkpoint}
    query = records.writeStream.format("ottla").options(**options).trigger(availableNow=True).start()
    query.awaitTermination()


# --- the rest: orders and payments to begin with, and the proof


def make_topics(bootstrap: str) -> None:
    """Anew: what an earlier run has left is deleted."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    left = list(admin.list_topics(timeout=10).topics.keys() & {ORDERS, PAYMENTS, PAID})
    for deleted in admin.delete_topics(left).values() if left else ():
        deleted.result(10)
    for created in admin.create_topics([NewTopic(name, 2, 1) for name in (ORDERS, PAYMENTS, PAID)]).values():
        created.result(10)


def produce(spark: SparkSession, bootstrap: str) -> None:
    """An order a minute. Three of four are paid ten minutes later; every tenth payment takes two hours: too late."""
    orders = spark.range(0, COUNT, 1, 1).selectExpr(
        "id AS order",
        "concat('customer-', id % 7) AS customer",
        "timestamp_seconds(1700000000 + id * 60) AS ordered_at",
    )
    payments = orders.where("order % 4 != 0").selectExpr(
        "order", "order * 100 AS cents", "ordered_at + IF(order % 10 = 1, 120, 10) * INTERVAL 1 MINUTE AS paid_at"
    )
    for topic, rows in ((ORDERS, orders), (PAYMENTS, payments)):
        records = rows.selectExpr("CAST(order AS STRING) AS key", "to_json(struct(*)) AS value")
        to = {"kafka.bootstrap.servers": bootstrap, "topic": topic}
        records.write.format("ottla").mode("append").options(**to).save()


def main(bootstrap: str) -> None:
    make_topics(bootstrap)
    spark = ottla.spark.session("join")
    produce(spark, bootstrap)
    orders = read(spark, bootstrap, ORDERS, ORDER)
    payments = read(spark, bootstrap, PAYMENTS, PAYMENT)
    with tempfile.TemporaryDirectory() as checkpoint:
        write(paid_orders(orders, payments), bootstrap, PAID, checkpoint)

    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": PAID}
    values = spark.read.format("ottla").options(**options).load().selectExpr("CAST(value AS STRING) AS json")
    paid = values.selectExpr("from_json(json, 'order BIGINT, customer STRING, cents BIGINT') AS row").select("row.*")
    found = sorted((row.order, row.customer, row.cents) for row in paid.collect())
    in_time = [order for order in range(COUNT) if order % 4 != 0 and order % 10 != 1]
    print(f"{len(found)} of {COUNT} orders were paid in time: {sum(cents for _, _, cents in found)} cents")
    assert found == [(order, f"customer-{order % 7}", order * 100) for order in in_time]


if __name__ == "__main__":
    main(*(sys.argv[1:] or ["127.0.0.1:9092"]))
