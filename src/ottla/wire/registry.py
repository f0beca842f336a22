"""The shape of the message index: rows that cost nothing, classes that are imported when first asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import NamedTuple

from ottla.wire.primitives import Message


class Api(NamedTuple):
    key: int
    module: str
    request: str
    response: str
    min_version: int
    max_version: int
    flexible_from: int


class Registry(Mapping[int, type[Message]]):
    def __init__(self, places: dict[int, tuple[str, str]]) -> None:
        self._places = places
        self._loaded: dict[int, type[Message]] = {}

    def __getitem__(self, key: int) -> type[Message]:
        cls = self._loaded.get(key)
        if cls is None:
            module, name = self._places[key]
            cls = getattr(import_module(f"ottla.wire.messages.{module}"), name)
            self._loaded[key] = cls
        return cls

    def __iter__(self) -> Iterator[int]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)
