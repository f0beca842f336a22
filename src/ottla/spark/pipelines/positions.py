"""Where in a pipeline's files Spark found something wrong."""

import re
from typing import TYPE_CHECKING

from ottla.spark.pipelines.definitions import Fault, Place, SqlText
from ottla.spark.pipelines.user_code import words

if TYPE_CHECKING:
    from pyspark.errors import PySparkException

_LINE_AND_COLUMN = re.compile(r"line (\d+),? pos(?:ition)? (\d+)")


def fault_in(text: SqlText, failure: "PySparkException", padded: bool = False) -> Fault:
    """The place of what Spark complained about in this text, which it was given `padded` or as it stands."""
    given = text.padded() if padded else text.text
    index = _index(failure, given)
    if index is None or not text.place.column:
        return Fault(text.place, words(failure))
    lines = given[:index].split("\n")
    line, column = len(lines), len(lines[-1]) + 1
    if not padded:
        column += text.place.column - 1 if line == 1 else 0
        line += text.place.line - 1
    return Fault(Place(text.place.file, line, column), words(failure))


def _index(failure: "PySparkException", given: str) -> int | None:
    for context in failure.getQueryContext() or ():
        if context.contextType().name == "SQL" and not context.objectName():
            return context.startIndex()
    found = _LINE_AND_COLUMN.search(str(failure))
    if found is None:
        return None
    line, column = int(found[1]), int(found[2])
    lines = given.split("\n")
    if not 1 <= line <= len(lines):
        return None
    return sum(len(text) + 1 for text in lines[: line - 1]) + min(column, len(lines[line - 1]))
