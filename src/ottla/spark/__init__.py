"""Ottla on PySpark. `ottla.spark.session()` is where to begin."""

from ottla.spark.not_ready import NotReady
from ottla.spark.session import session

__all__ = ["NotReady", "session"]
