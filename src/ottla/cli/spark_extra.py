"""What commands that need Spark have in common: the extra may be missing, and its complaints become ours."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from ottla.cli.failure import Failed


@contextmanager
def spark_room() -> Iterator[None]:
    """Inside it `ottla.spark` may be imported and used."""
    missing = [name for name in ("pyspark", "pyarrow", "yaml") if find_spec(name) is None]
    if missing:
        raise Failed(f"pipelines run on Spark, and {missing[0]} is not installed: pip install 'ottla[spark]'")
    from ottla.spark.not_ready import NotReady

    try:
        yield
    except NotReady as advice:
        raise Failed(str(advice)) from None
