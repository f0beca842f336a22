"""How much the node's own log says: one threshold for the process, which may be moved while it runs (KIP-412)."""

from ottla.base.settings import BadSetting

ROOT_LOGGER = "root"
LEVELS = {"TRACE": 5, "DEBUG": 10, "INFO": 20, "WARN": 30, "ERROR": 40, "FATAL": 50}
"""Kafka's names, and the numbers that Python's loggers have for them."""


class LogThreshold:
    """What is below is not written."""

    def __init__(self, level: str = "INFO") -> None:
        self.level = level
        self.number = LEVELS[level]

    def change(self, level: str) -> None:
        self.level = checked_level(level)
        self.number = LEVELS[level]


def checked_level(level: str) -> str:
    if level not in LEVELS:
        raise BadSetting(
            f"Cannot set the log level of {ROOT_LOGGER} to {level[:100]} as it is not a supported log level. "
            f"Valid log levels are {', '.join(sorted(LEVELS))}"
        )
    return level


THRESHOLD = LogThreshold()
