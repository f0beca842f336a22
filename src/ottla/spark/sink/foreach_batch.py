"""What a batch writer inside `foreachBatch` has to be told so that its rows are written once."""

from typing import TYPE_CHECKING

from ottla.spark.not_ready import NotReady

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def batch_options(frame: "DataFrame", batch: int) -> dict[str, str]:
    """As in `frame.write.format("ottla").mode("append").options(**batch_options(frame, batch)).save()`.

    The query's id and the batch's number name what is written, its checkpoint tells it from another batch under the
    same name. Of several writes in one function to the same topic each needs an option `sinkName` of its own.
    """
    from ottla.spark import internals

    query = internals.query_of_batch(frame)
    if query is None:
        raise NotReady(
            "this session does not tell which streaming query a batch belongs to (Spark Connect does not). Give the "
            "options txnAppId, a name that stays the same for the query, and txnVersion, the number of the batch"
        )
    options = {"txnAppId": query, "txnVersion": str(batch)}
    checkpoint = internals.checkpoint_of_batch(frame, query)
    return options if checkpoint is None else {**options, "txnCheckpoint": checkpoint}
