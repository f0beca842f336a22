"""This package as one file, for clusters whose workers do not have it installed."""

import tempfile
import zipfile
from importlib.util import find_spec
from pathlib import Path

import ottla

_ALSO = ("pyspark_ottla",)
"""Modules beside the package: Spark finds the data source by this name."""


def packed() -> Path:
    """A zip that Python imports from; made anew each time, so that it is never older than the code that runs."""
    package = Path(ottla.__file__).parent
    directory = Path(tempfile.mkdtemp(prefix="ottla-ship-"))
    target = directory / f"ottla-{ottla.__version__}.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(package.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                archive.write(path, Path("ottla") / path.relative_to(package))
        for name in _ALSO:
            spec = find_spec(name)
            if spec is not None and spec.origin is not None:
                archive.write(spec.origin, Path(spec.origin).name)
    return target
