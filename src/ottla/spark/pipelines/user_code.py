"""Where the user's own Python is called: whatever it raises is told with its file and line, and ends nothing else."""

import re
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from ottla.spark.not_ready import NotReady
from ottla.spark.pipelines.decorators import place_of
from ottla.spark.pipelines.definitions import Fault, Faulty, Place

T = TypeVar("T")
_TRACEBACK = "Traceback (most recent call last)"
_SQLSTATE = re.compile(r"\.? SQLSTATE: \w+")


@dataclass(frozen=True, slots=True)
class UserCode:
    """Code of the files below this directory; other frames are libraries' and are not the place of a fault."""

    directory: Path

    @contextmanager
    def blamed_on(self, place: Place) -> Iterator[None]:
        """Everything that goes wrong inside is a fault at the innermost line of the user's, or else at the place."""
        try:
            yield
        except (Faulty, NotReady):
            raise
        except Exception as failure:
            raise Faulty(self.fault(failure, place)) from failure

    def call(self, function: Callable[[], T], place: Place) -> T:
        with self.blamed_on(place):
            return function()

    def fault(self, failure: BaseException, place: Place) -> Fault:
        if isinstance(failure, SyntaxError) and failure.filename:
            found = place_of(failure.filename, failure.lineno or 0, self.directory)
            return Fault(Place(found.file, found.line, failure.offset or 0), f"is no Python: {failure.msg}")
        for frame in reversed(traceback.extract_tb(failure.__traceback__)):
            if Path(frame.filename).is_relative_to(self.directory):
                place = place_of(frame.filename, frame.lineno or 0, self.directory)
                break
        return Fault(place, words(failure))


def words(failure: BaseException) -> str:
    """One line: what Spark says without its plan and its codes, or the exception's name and text."""
    from pyspark.errors import PySparkException

    text = str(failure).strip()
    if not isinstance(failure, PySparkException):
        return f"{type(failure).__name__}: {' '.join(text.split())}" if text else type(failure).__name__
    if _TRACEBACK in text:
        return cause(text)
    text = re.split(r";? line \d+,? pos \d+|;\n|\n\n?== |\n!?['~+]", text, maxsplit=1)[0]
    text = re.sub(r"^\[[\w.]+\] ", "", text)
    text = re.sub(r" \(line \d+, pos \d+\)", "", text)
    return " ".join(_SQLSTATE.sub("", text).split()).rstrip(".;")


# `ValueError: …` and `some.module.SomeName: …`, but nothing of the JVM's.
_PYTHON_ERROR = re.compile(
    r"(?!org\.|java\.|scala\.|py4j\.)(?:[a-z_]\w*\.)*(?P<what>(?:\w*(?:Error|Exception)|(?<=\.)[A-Z]\w*)(?::.*|$))"
)
_CONDITION = re.compile(r"(?:^\w*Exception: )?\[[A-Z_]+(?:\.[A-Z_]+)*\] ")
_CAUSE_CHARS_MAX = 500


def cause(text: str) -> str:
    """One line of what made a query fail: the last Python error in it, or else what Spark says first."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for line in reversed(lines):
        found = _PYTHON_ERROR.match(line)
        # PySpark's worker stumbles over a reader that it could not make; what hindered it stands above.
        if found is not None and not found["what"].startswith("UnboundLocalError"):
            return _SQLSTATE.sub("", _CONDITION.sub("", found["what"]))[:_CAUSE_CHARS_MAX]
    told = [line for line in lines if not line.startswith(("at ", "===", "Traceback", "File "))]
    return " ".join((told or lines or ["it ended without a word"])[0].split())[:_CAUSE_CHARS_MAX]
