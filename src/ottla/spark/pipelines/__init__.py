"""The words of pipelines in Python: `from ottla.spark import pipelines as dp`."""

from ottla.spark.pipelines.decorators import (
    append_flow,
    create_sink,
    create_stream,
    create_streaming_table,
    create_topic_table,
    stream,
    table,
    temporary_view,
)

__all__ = [
    "append_flow",
    "create_sink",
    "create_stream",
    "create_streaming_table",
    "create_topic_table",
    "stream",
    "table",
    "temporary_view",
]
