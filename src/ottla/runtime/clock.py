"""The wall clock: what timestamps in records and in answers are taken from."""

import time


def now_ms() -> int:
    return time.time_ns() // 1_000_000


_WALL_MS_AT_IMPORT = time.time_ns() // 1_000_000
_STEADY_NS_AT_IMPORT = time.monotonic_ns()


def steady_ms() -> int:
    """Milliseconds that read like the wall clock's and never jump: for sessions and other deadlines."""
    return _WALL_MS_AT_IMPORT + (time.monotonic_ns() - _STEADY_NS_AT_IMPORT) // 1_000_000
