"""The names under which a table keeps what belongs to its batches, beside the rows and in the same commits."""

from ottla.base.types import TopicPartition


def end_of(place: TopicPartition) -> str:
    """How far a table has come with a partition that it archives: the offset that comes next.

    Of rows alone that cannot be told exactly: behind the last one there may be markers of transactions, or records that
    compaction took, and retention may have removed all of these from the log.
    """
    return f"ottla.end.{place}"


def digest_of(application: str) -> str:
    """The digest of the last batch of a query."""
    return f"ottla.digest.{application}"
