"""The process that `test_driver_kills.py` kills: a query from one topic to another, in small batches, for ever.

Arguments: brokers, source topic, target topic, checkpoint, and "once" to read what is there and end.
"""

import sys

import ottla.spark


def main(brokers: str, source: str, target: str, checkpoint: str, mode: str) -> None:
    config = {"spark.driver.memory": "512m", "spark.sql.shuffle.partitions": 1}
    spark = ottla.spark.session("killed", master="local[2,2]", config=config)
    rows = spark.readStream.format("ottla").options(
        **{
            "kafka.bootstrap.servers": brokers,
            "subscribe": source,
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": "400",
            "minPartitions": "2",
            "group": f"progress-of-{source}",
        }
    )
    frame = rows.load().selectExpr("key", "concat(partition, '-', offset) AS value")
    writer = frame.writeStream.format("ottla").options(
        **{"kafka.bootstrap.servers": brokers, "topic": target, "checkpointLocation": checkpoint}
    )
    query = (writer.trigger(availableNow=True) if mode == "once" else writer).start()
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
