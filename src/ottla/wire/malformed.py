"""The one error of everything that reads bytes from outside."""

from __future__ import annotations


class Malformed(ValueError):
    """Bytes that are truncated, inconsistent or absurd; the text says which and where."""
