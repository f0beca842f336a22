"""The process that `test_driver_kills.py` kills: a query from one topic to another, for ever.

Arguments: brokers, source topic, target topic, checkpoint, and the mode, micro or tail.
"""

import sys

import ottla.spark

OPTIONS = {
    "micro": {"maxOffsetsPerTrigger": "400", "minPartitions": "2"},
    "tail": {"mode": "tail", "epoch": "1s"},
}


def main(brokers: str, source: str, target: str, checkpoint: str, mode: str) -> None:
    config = {"spark.driver.memory": "512m", "spark.sql.shuffle.partitions": 1}
    if mode == "tail":
        config |= ottla.spark.TAIL_SETTINGS
    spark = ottla.spark.session("killed", master="local[2,2]", config=config)
    reader = spark.readStream.format("ottla").options(**OPTIONS[mode]).option("subscribe", source)
    reader = reader.option("kafka.bootstrap.servers", brokers).option("startingOffsets", "earliest")
    rows = reader.option("group", f"progress-of-{source}").load()
    writer = rows.selectExpr("key", "concat(partition, '-', offset) AS value").writeStream.format("ottla")
    writer = writer.option("kafka.bootstrap.servers", brokers).option("topic", target)
    writer.option("checkpointLocation", checkpoint).start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
