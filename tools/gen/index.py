"""Emits the index of all requests and responses: a literal table, so that reading it imports no message."""

from __future__ import annotations

from tools.gen.model import Message
from tools.gen.module import HEAD


def index_text(apis: dict[str, dict[str, Message]]) -> str:
    rows = sorted((parts["request"].key or 0, name, parts) for name, parts in apis.items())
    lines = [
        HEAD,
        '"""Every API by its key. Messages are imported when they are first asked for."""',
        "",
        "from __future__ import annotations",
        "",
        "from enum import IntEnum",
        "",
        "from ottla.wire.registry import Api, Registry",
        "",
        "",
        "class ApiKey(IntEnum):",
        *(f"    {name.upper()} = {key}" for key, name, _ in rows),
        "",
        "",
        "APIS: dict[int, Api] = {",
        *(f"    {key}: {_row(key, name, parts['request'], parts['response'])}," for key, name, parts in rows),
        "}",
        "FLEXIBLE_FROM: dict[int, int] = {key: api.flexible_from for key, api in APIS.items()}",
        "REQUESTS = Registry({key: (api.module, api.request) for key, api in APIS.items()})",
        "RESPONSES = Registry({key: (api.module, api.response) for key, api in APIS.items()})",
    ]
    return "\n".join(lines) + "\n"


def _row(key: int, name: str, request: Message, response: Message) -> str:
    low, high = min(request.versions), max(request.versions)
    return f'Api({key}, "{name}", "{request.name}", "{response.name}", {low}, {high}, {request.flexible_from})'
