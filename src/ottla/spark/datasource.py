"""The data source "ottla": what Spark asks for a reader or a writer.

Spark imports this to look up any Python source, also for a query that has nothing to do with us: everything that takes
time to import is imported where it is needed.
"""

from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType


class OttlaDataSource(DataSource):
    def __init__(self, options: dict[str, str]) -> None:
        from ottla.spark.internals import settle_in_worker

        super().__init__(options)
        settle_in_worker()

    @classmethod
    def name(cls) -> str:
        return "ottla"

    def schema(self) -> Any:
        from pyspark.sql.pandas.types import from_arrow_schema

        from ottla.spark.arrow.schema import row_schema
        from ottla.spark.option_words import OptionWords
        from ottla.spark.source.options import parse_columns

        return from_arrow_schema(row_schema(parse_columns(OptionWords(self.options))))

    def reader(self, schema: "StructType") -> "DataSourceReader":
        from ottla.spark.internals import is_pushing_filters
        from ottla.spark.option_words import OptionWords
        from ottla.spark.source.batch import BatchReader, FilteringBatchReader
        from ottla.spark.source.options import parse_source_options

        options = parse_source_options(OptionWords(self.options), is_stream=False)
        return FilteringBatchReader(options) if is_pushing_filters() else BatchReader(options)

    def streamReader(self, schema: "StructType") -> "DataSourceStreamReader":
        from ottla.spark.option_words import OptionWords
        from ottla.spark.source.archived_stream import ArchivedStreamReader
        from ottla.spark.source.options import parse_source_options
        from ottla.spark.source.stream import StreamReader
        from ottla.spark.source.tail import TailReader

        options = parse_source_options(OptionWords(self.options), is_stream=True)
        if options.is_tail:
            return TailReader(options)
        return StreamReader(options) if options.archive is None else ArchivedStreamReader(options)

    def writer(self, schema: "StructType", overwrite: bool) -> "DataSourceWriter":
        from ottla.spark.option_words import BadOption, OptionWords
        from ottla.spark.sink.batch import OnceBatchWriter, PlainBatchWriter
        from ottla.spark.sink.options import parse_sink_options

        if overwrite:
            raise BadOption("a topic cannot be overwritten; write with mode('append')")
        options = parse_sink_options(OptionWords(self.options), schema)
        return PlainBatchWriter(options) if options.txn is None else OnceBatchWriter(options)

    def streamWriter(self, schema: "StructType", overwrite: bool) -> "DataSourceStreamWriter":
        """In complete mode, which is `overwrite`, each batch appends the whole result, as in Spark's own sink."""
        from ottla.spark.internals import checkpoint_of
        from ottla.spark.option_words import OptionWords
        from ottla.spark.sink.options import parse_sink_options
        from ottla.spark.sink.stream import StreamWriter

        options = parse_sink_options(OptionWords(self.options), schema)
        return StreamWriter(options, checkpoint_of(self.options))
