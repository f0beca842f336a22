"""The node's log directories, opened together: one cluster, and as many of them as work."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import structlog

from ottla.base.broker_settings import BrokerConfig
from ottla.base.errors import ErrorCode, Refused
from ottla.base.types import Uuid
from ottla.storage.directory import DirectoryUnusable, LogDirectory
from ottla.storage.meta_properties import META_PROPERTIES

log = structlog.get_logger(__name__)


class Directories(NamedTuple):
    online: list[LogDirectory]
    lost: list[Path]
    """Those that could not be opened."""


def open_directories(config: BrokerConfig) -> Directories:
    """All that work; Refused or OSError when the node cannot start with them.

    Directories that say which cluster they belong to come first: a new one joins them.
    """
    paths = _distinct(config.log_dirs)
    known = [path for path in paths if (path / META_PROPERTIES).exists()]
    opened: dict[Path, LogDirectory] = {}
    failures: dict[Path, OSError] = {}
    cluster_id: Uuid | None = config.cluster_id
    for path in [*known, *(path for path in paths if path not in known)]:
        try:
            directory = LogDirectory.open(path, config.node_id, cluster_id)
        except DirectoryUnusable as problem:
            _close(opened.values())
            raise Refused(ErrorCode.KAFKA_STORAGE_ERROR, str(problem)) from None
        except OSError as problem:
            failures[path] = problem
            continue
        cluster_id = directory.cluster_id
        opened[path] = directory
    if not opened or paths[0] in failures:
        # The first one holds the metadata log: without it this node knows nothing.
        _close(opened.values())
        raise failures[paths[0]]
    for path, failure in failures.items():
        log.error("log directory offline", path=str(path), reason=str(failure))
    return Directories([opened[path] for path in paths if path in opened], list(failures))


def _distinct(paths: Sequence[Path]) -> list[Path]:
    if not paths:
        raise Refused(ErrorCode.INVALID_CONFIG, "a node needs a log directory (log.dirs)")
    return list(dict.fromkeys(path.absolute() for path in paths))


def _close(directories: Iterable[LogDirectory]) -> None:
    for directory in directories:
        directory.close(clean=False)
