"""Spark looks for data sources in modules named `pyspark_…`: with this one, `format("ottla")` needs no registration."""

from ottla.spark.datasource import OttlaDataSource as DefaultSource

__all__ = ["DefaultSource"]
