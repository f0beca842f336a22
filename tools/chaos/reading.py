"""What a client reads, and where it goes on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tools.chaos.client_port import Client
from tools.chaos.history import Key, Poll, Value
from tools.chaos.payload import split_key, unseal


class Reading:
    def __init__(self, client: Client) -> None:
        self._client = client
        self._positions: dict[Key, int] = {}
        """Of the keys that are assigned: the next offset."""

    def assign(self, keys: Mapping[Key, int | None]) -> None:
        """None: where the group has got to."""
        stored = self._client.committed([key for key, offset in keys.items() if offset is None])
        begins = {key: stored.get(key, 0) if offset is None else offset for key, offset in keys.items()}
        kept = {key: self._positions.get(key, offset) for key, offset in begins.items()}
        self._client.assign(kept)
        self._positions = kept

    def subscribe(self, keys: Iterable[Key]) -> None:
        self._positions = {}
        self._client.subscribe(sorted({split_key(key)[0] for key in keys}))

    def poll(self, seconds: float, records_max: int) -> Poll:
        seen: dict[Key, list[tuple[int, Value]]] = {}
        for record in self._client.poll(seconds, records_max):
            seen.setdefault(record.key, []).append((record.offset, unseal(record.key, record.data)))
            if record.key in self._positions:
                self._positions[record.key] = record.offset + 1
        return Poll({key: tuple(pairs) for key, pairs in seen.items()})

    def rewind(self, polls: Iterable[Poll]) -> None:
        """As if these had not been. What was given or taken meanwhile begins where the group has got to."""
        begins: dict[Key, int] = {}
        for poll in polls:
            for key, seen in poll.seen.items():
                begins.setdefault(key, seen[0][0])
        begins |= self._client.committed(sorted(begins.keys() & self._client.rebalanced))
        self._client.seek(begins)
        self._positions.update((key, offset) for key, offset in begins.items() if key in self._positions)

    def take_rebalanced(self) -> list[Key]:
        """Keys given or taken since the last time that somebody asked."""
        rebalanced = sorted(self._client.rebalanced)
        self._client.rebalanced.difference_update(rebalanced)
        return rebalanced
