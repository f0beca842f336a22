"""Topic names that no other test has."""

from __future__ import annotations

import secrets


def unique(prefix: str = "t") -> str:
    return f"{prefix}-{secrets.token_hex(6)}"
