"""Short histories, told in a few words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tools.chaos.history import Function, Mop, Op, Outcome, Poll, Send

OK, FAIL, INFO = Outcome.OK, Outcome.FAIL, Outcome.INFO
KEY = "t/0"


class Tale:
    """Operations one after the other, unless told otherwise."""

    def __init__(self) -> None:
        self.ops: list[Op] = []

    def add(self, f: Function, mops: Sequence[Mop], process: int = 0, outcome: Outcome = OK, **more: Any) -> Op:
        number = len(self.ops)
        op = Op(number, process, f, outcome, tuple(mops), **more)
        if not op.invoked_ns:
            op.invoked_ns, op.ended_ns = 10 * number + 1, 10 * number + 5
        self.ops.append(op)
        return op

    def send(self, *pairs: tuple[int, int | None], key: str = KEY, **more: Any) -> Op:
        """Pairs of value and offset."""
        outcome = more.get("outcome", OK)
        sends = [Send(key, value, offset, offset is not None or outcome is OK) for value, offset in pairs]
        return self.add(Function.SEND, sends, **more)

    def poll(self, *pairs: tuple[int, int | str], key: str = KEY, **more: Any) -> Op:
        """Pairs of offset and value."""
        return self.add(Function.POLL, [Poll({key: pairs})], **more)

    def txn(self, *mops: Mop, **more: Any) -> Op:
        return self.add(Function.TXN, mops, **more)

    def assign(self, keys: Mapping[str, int | None], **more: Any) -> Op:
        return self.add(Function.ASSIGN, (), keys=keys, **more)

    def subscribe(self, *keys: str, **more: Any) -> Op:
        return self.add(Function.SUBSCRIBE, (), keys=dict.fromkeys(keys), **more)
