"""Large payments also to a topic, for somebody to look at. The dead letters go out in the same transaction.

SQL and Python see each other's streams and views; `spark` is the session that runs the pipeline.
"""

from pyspark.sql import functions as F

from ottla.spark import pipelines as dp


@dp.append_flow(target="topic:to-delta-payments.large", key="number")
def large():
    is_large = F.col("cents") >= 90_000
    return spark.readStream.table("payments").where(is_large).select("number", "cents")  # noqa: F821
