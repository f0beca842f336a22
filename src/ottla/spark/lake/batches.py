"""What a lake table is to note of a batch of a streaming query."""

from typing import TYPE_CHECKING

from ottla.spark.lake.tables import BatchMark
from ottla.spark.sink.deciding import ends_moved_by, sources_for
from ottla.spark.sink.foreach_batch import batch_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_DIGEST_BYTES = 8


def mark_for(frame: "DataFrame", number: int) -> BatchMark:
    once = batch_options(frame, number)
    checkpoint = once.get("txnCheckpoint")
    digest, _ = sources_for(checkpoint, number, "")
    # Tables keep a signed number of 64 bits.
    short = int.from_bytes(digest[:_DIGEST_BYTES], "big") >> 1
    return BatchMark(once["txnAppId"], number, short, ends_moved_by(checkpoint, number))
