"""What a partition knows of its producers: their last batches, their open transactions (KIP-98, 360, 890)."""

from ottla.core.producers.producer import Producer, ProducerSnapshot, RememberedBatch
from ottla.core.producers.table import CompletedTxn, Duplicate, ProducerTable, Verification

__all__ = [
    "CompletedTxn",
    "Duplicate",
    "Producer",
    "ProducerSnapshot",
    "ProducerTable",
    "RememberedBatch",
    "Verification",
]
