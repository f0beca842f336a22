"""Ottla on PySpark. `ottla.spark.session()` is where to begin."""

from ottla.spark.not_ready import NotReady
from ottla.spark.session import TAIL_SETTINGS, session
from ottla.spark.sink.foreach_batch import batch_options

__all__ = ["TAIL_SETTINGS", "NotReady", "batch_options", "session"]
