"""The data source "ottla": what Spark asks for a reader or a writer.

Spark imports this to look up any Python source, also for a query that has nothing to do with us: everything that takes
time to import is imported where it is needed.
"""

from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader
    from pyspark.sql.types import StructType


class OttlaDataSource(DataSource):
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
        from ottla.spark.source.options import parse_source_options
        from ottla.spark.source.stream import StreamReader

        return StreamReader(parse_source_options(OptionWords(self.options), is_stream=True))
