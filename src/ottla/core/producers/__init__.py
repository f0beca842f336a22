"""What a partition knows of its producers: which batches it has seen, which transactions are open (KIP-98, 360, 890)."""

from ottla.core.producers.table import CompletedTxn, Duplicate, ProducerTable
from ottla.core.producers.producer import Producer, ProducerSnapshot, RememberedBatch

__all__ = ["CompletedTxn", "Duplicate", "Producer", "ProducerSnapshot", "ProducerTable", "RememberedBatch"]
