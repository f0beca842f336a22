"""What records carry: half noise and half text, so that codecs have something to do and cannot do it all."""

from random import Random

_TEXT = b"the log keeps what it was told, in the order in which it was told; "
_DISTINCT = 1_000


def values(size: int, count: int = _DISTINCT) -> list[bytes]:
    """Always the same values for a size, on both sides and in every run."""
    noise = Random(size)
    text = _TEXT * (size // len(_TEXT) + 1)
    return [noise.randbytes(size // 2) + text[: size - size // 2] for _ in range(count)]
