"""The session that the user's functions find as `spark` and as `SparkSession.active()`."""

import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SAY_EVERYTHING_TWICE = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


def activate(spark: "SparkSession") -> None:
    from pyspark.sql import SparkSession as Sessions

    jvm: Any = spark._jvm
    Sessions._activeSession = spark  # what Python says, and then what the JVM says
    jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(spark._jsparkSession)
    for name in _SAY_EVERYTHING_TWICE:
        # PySpark writes every refused query to stderr as JSON before it raises; we say it with its place.
        logging.getLogger(name).disabled = True
