"""Ottla on PySpark. `ottla.spark.session()` is where to begin."""

from ottla.spark.not_ready import NotReady
from ottla.spark.session import session
from ottla.spark.sink.foreach_batch import batch_options

__all__ = ["NotReady", "batch_options", "session"]
