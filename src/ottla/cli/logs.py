"""Where a node's log goes: stderr, for people as coloured lines, for programs as JSON."""

import logging
import sys
from enum import StrEnum

import structlog


class LogLevel(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def write_logs(level: LogLevel) -> None:
    watched = sys.stderr.isatty()
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=not watched),
            structlog.dev.ConsoleRenderer() if watched else structlog.processors.dict_tracebacks,
            *([] if watched else [structlog.processors.JSONRenderer(default=str)]),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelName(level.name)),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
