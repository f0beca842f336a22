"""A history survives being written down."""

from __future__ import annotations

import json

from tests.chaos.telling import INFO, KEY, Tale
from tools.chaos.history import Op, Outcome, Poll, Send, completion, invocation, read_lines


def written(ops: list[Op]) -> list[str]:
    return [json.dumps(row) for op in ops for row in (invocation(op), completion(op))]


def test_a_history_is_read_as_it_was_written() -> None:
    tale = Tale()
    tale.assign({KEY: 3}, process=1)
    tale.send((0, 0), (1, None), outcome=INFO, error="_TIMED_OUT")
    tale.poll((0, 0), (1, "b'?'"), process=1, rebalanced=frozenset([KEY]))
    tale.txn(Send(KEY, 2, 2, True), Poll({}), process=2)
    lines = written(tale.ops)
    assert read_lines([*lines[:3], '{"fault": "kill"}\n', "\n", *lines[3:]]) == tale.ops


def test_an_operation_without_an_end_is_unknown() -> None:
    tale = Tale()
    tale.send((5, None))
    [op] = read_lines(written(tale.ops)[:1])
    assert op.outcome is Outcome.INFO
    assert op.ended_ns is None
    assert [send.value for send in op.sends()] == [5]
