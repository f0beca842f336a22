"""Where a node's log goes: stderr, for people as coloured lines, for programs as JSON."""

import logging
import sys
from enum import StrEnum

import structlog
from structlog.typing import EventDict

from ottla.base.log_level import THRESHOLD


class LogLevel(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


_KAFKA_NAMES = {
    LogLevel.DEBUG: "DEBUG",
    LogLevel.INFO: "INFO",
    LogLevel.WARNING: "WARN",
    LogLevel.ERROR: "ERROR",
}

_NUMBERS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING}
"""By the logger's methods; all others report what went wrong."""


def _drop_below_threshold(_: object, method: str, event: EventDict) -> EventDict:
    """Looked up each time: an administrator may change it while the node runs."""
    if _NUMBERS.get(method, logging.ERROR) < THRESHOLD.number:
        raise structlog.DropEvent
    return event


def write_logs(level: LogLevel) -> None:
    watched = sys.stderr.isatty()
    THRESHOLD.change(_KAFKA_NAMES[level])
    structlog.configure(
        processors=[
            _drop_below_threshold,
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=not watched),
            structlog.dev.ConsoleRenderer() if watched else structlog.processors.dict_tracebacks,
            *([] if watched else [structlog.processors.JSONRenderer(default=str)]),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.NOTSET),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
