"""The wall clock: what timestamps in records and in answers are taken from."""

import time


def now_ms() -> int:
    return time.time_ns() // 1_000_000
