"""What is said to have become of a transaction: done, not done, or unknown, and nothing more than that."""

from __future__ import annotations

from typing import Any

import pytest

from tools.chaos.client import Servant
from tools.chaos.client_port import Ack, Posted, Received, TransactionFailed
from tools.chaos.copies import copy_key, copy_value
from tools.chaos.history import Key, Outcome
from tools.chaos.payload import seal, unseal

KEY = "t/0"
LOST, CURABLE = TransactionFailed("fenced", is_fatal=True), TransactionFailed("late", is_fatal=False)


class ScriptedClient:
    """Fails in the calls that it is told to, and notes all of them."""

    is_lost_by_failures = False

    def __init__(self, failures: dict[str, TransactionFailed] | None = None) -> None:
        self.rebalanced: set[Key] = set()
        self.failures = failures or {}
        self.calls: list[Any] = []
        self.log: list[Received] = []
        self.group: dict[Key, int] = {}
        self.seeks: dict[Key, int] = {}
        self.ack = Ack(Outcome.OK, 7)

    def _do(self, name: str, *what: Any) -> None:
        self.calls.append((name, *what))
        if name in self.failures:
            raise self.failures[name]

    def send(self, records: list[tuple[Key, bytes]]) -> list[Ack]:
        return self.post(records)()

    def post(self, records: list[tuple[Key, bytes]]) -> Posted:
        self._do("send", *((key, unseal(key, data)) for key, data in records))
        return lambda: [self.ack] * len(records)

    def poll(self, seconds: float, records_max: int) -> list[Received]:
        found, self.log = self.log, []
        return found

    def assign(self, positions: dict[Key, int]) -> None:
        self._do("assign", positions)

    def subscribe(self, topics: list[str]) -> None:
        self._do("subscribe", topics)

    def seek(self, positions: dict[Key, int]) -> None:
        self.seeks |= positions

    def commit(self) -> None:
        self._do("commit")

    def committed(self, keys: list[Key]) -> dict[Key, int]:
        return {key: self.group[key] for key in keys if key in self.group}

    def begin(self) -> None:
        self._do("begin")

    def send_offsets(self, offsets: dict[Key, int]) -> None:
        self._do("send_offsets", offsets)

    def end(self, commits: bool) -> None:
        self._do("commit" if commits else "abort")


def transact(client: ScriptedClient, *mops: list[Any], commits: bool = True, **more: Any) -> dict[str, Any]:
    course = {"commits": commits, "delay_seconds": 0, "seconds": 0, "records_max": 9}
    return Servant(client).serve({"f": "txn", "mops": mops, **course, **more})


def copy(client: ScriptedClient, *offsets: int, commits: bool = True) -> dict[str, Any]:
    client.log = [Received(KEY, offset, seal(KEY, offset, 10)) for offset in offsets]
    return transact(client, commits=commits, attempt=3)


SEND = ["send", KEY, 1, 20]


def test_a_commit_that_is_answered_is_done() -> None:
    client = ScriptedClient()
    answer = transact(client, SEND)
    assert (answer["outcome"], answer["is_broken"]) == (Outcome.OK, False)
    assert answer["mops"] == [["send", KEY, 1, 7, True]]
    assert client.calls == [("begin",), ("send", (KEY, 1)), ("commit",)]


def test_a_hasty_transaction_asks_for_its_acknowledgements_after_the_commit() -> None:
    client = ScriptedClient()
    client.ack = Ack(Outcome.INFO, error="no report")
    answer = transact(client, SEND, SEND, is_hasty=True)
    assert [call[0] for call in client.calls] == ["begin", "send", "send", "commit"]
    assert (answer["outcome"], answer["is_broken"]) == (Outcome.INFO, True)
    client = ScriptedClient()
    answer = transact(client, SEND, ["poll"], SEND, is_hasty=True)
    assert answer["outcome"] is Outcome.OK
    assert [mop[0] for mop in answer["mops"]] == ["send", "poll", "send"]
    assert [mop[3:] for mop in answer["mops"] if mop[0] == "send"] == [[7, True], [7, True]]


def test_a_library_whose_commit_does_not_notice_failures_is_not_hasty() -> None:
    client = ScriptedClient()
    client.is_lost_by_failures, client.ack = True, Ack(Outcome.INFO, error="no report")
    answer = transact(client, SEND, SEND, is_hasty=True)
    assert (answer["outcome"], answer["is_broken"]) == (Outcome.FAIL, True)
    assert [call[0] for call in client.calls] == ["begin", "send"]


def test_what_a_hasty_transaction_sent_before_its_abort_is_not_waited_for() -> None:
    client = ScriptedClient()
    answer = transact(client, SEND, commits=False, is_hasty=True)
    assert [call[0] for call in client.calls] == ["begin", "send", "abort"]
    assert (answer["outcome"], answer["mops"]) == (Outcome.FAIL, [["send", KEY, 1, None, False]])


def test_a_commit_without_an_answer_is_unknown_and_the_end_of_the_client() -> None:
    for failure in (LOST, CURABLE):
        answer = transact(ScriptedClient({"commit": failure}), SEND)
        assert (answer["outcome"], answer["is_broken"]) == (Outcome.INFO, True)


@pytest.mark.parametrize("call", ["begin", "send"])
def test_what_fails_before_the_commit_is_asked_for_is_not_done(call: str) -> None:
    client = ScriptedClient({call: CURABLE})
    answer = transact(client, SEND)
    assert (answer["outcome"], answer["is_broken"]) == (Outcome.FAIL, False)
    assert client.calls[-1] == ("abort",)
    answer = transact(ScriptedClient({call: LOST}), SEND)
    assert (answer["outcome"], answer["is_broken"]) == (Outcome.FAIL, True)


def test_a_record_that_is_not_acknowledged_aborts_the_transaction() -> None:
    client = ScriptedClient()
    client.ack = Ack(Outcome.INFO, error="no report")
    answer = transact(client, SEND, SEND)
    assert (answer["outcome"], answer["error"]) == (Outcome.FAIL, "no report")
    assert [call[0] for call in client.calls] == ["begin", "send", "abort"]


def test_an_abort_without_an_answer_is_an_abort_and_the_end_of_the_client() -> None:
    answer = transact(ScriptedClient({"abort": LOST}), SEND, commits=False)
    assert (answer["outcome"], answer["is_broken"]) == (Outcome.FAIL, True)


def test_what_was_polled_in_vain_is_polled_again() -> None:
    client = ScriptedClient()
    client.log = [Received(KEY, offset, b"x") for offset in (4, 5)]
    assert transact(client, ["poll"], ["poll"], commits=False)["outcome"] is Outcome.FAIL
    assert client.seeks == {KEY: 4}


def test_what_was_given_while_it_was_polled_in_vain_begins_where_the_group_has_got_to() -> None:
    client = ScriptedClient()
    client.rebalanced, client.group = {KEY, "t/1"}, {KEY: 5}
    client.log = [Received(KEY, 4, b"x"), Received("t/1", 8, b"x")]
    transact(client, ["poll"], commits=False)
    assert client.seeks == {KEY: 5, "t/1": 8}


def test_copies_and_the_offset_behind_them_go_into_one_transaction() -> None:
    client = ScriptedClient()
    answer = copy(client, 4, 6)
    copies = [(copy_key(KEY), copy_value(offset, 3)) for offset in (4, 6)]
    assert client.calls == [("begin",), ("send", *copies), ("send_offsets", {KEY: 7}), ("commit",)]
    assert answer["outcome"] is Outcome.OK
    assert [mop[0] for mop in answer["mops"]] == ["poll", "send", "send"]


def test_where_there_is_nothing_to_copy_no_transaction_begins() -> None:
    client = ScriptedClient()
    assert copy(client)["outcome"] is Outcome.OK
    assert client.calls == []


def test_a_copier_that_has_all_to_itself_begins_where_its_group_has_got_to() -> None:
    client = ScriptedClient()
    client.group = {KEY: 5}
    Servant(client).serve({"f": "assign", "keys": {KEY: None, "t/1": None, "t/2": 9}})
    assert client.calls == [("assign", {KEY: 5, "t/1": 0, "t/2": 9})]
