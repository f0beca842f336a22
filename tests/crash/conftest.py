"""Where the crash tests keep their nodes."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

MEMORY = Path("/dev/shm")
MEMORY_BYTES_MIN = 2 << 30


@contextmanager
def _scratch(otherwise: Callable[[], Path]) -> Iterator[Path]:
    """In memory where that is possible: a killed process leaves the same there, and nobody waits for a disk."""
    if not MEMORY.is_dir() or shutil.disk_usage(MEMORY).free < MEMORY_BYTES_MIN:
        yield otherwise()
        return
    with tempfile.TemporaryDirectory(prefix="ottla-crash-", dir=MEMORY, ignore_cleanup_errors=True) as directory:
        yield Path(directory)


@pytest.fixture
def scratch(tmp_path: Path) -> Iterator[Path]:
    with _scratch(lambda: tmp_path) as path:
        yield path


@pytest.fixture(scope="module")
def shared_scratch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """For what the tests of a module share."""
    with _scratch(lambda: tmp_path_factory.mktemp("shared")) as path:
        yield path
