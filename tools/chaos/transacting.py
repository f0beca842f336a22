"""One transaction of a client, and what has become of it, as exactly as that can be known.

Nobody but the client can have its transaction committed: before it has asked for that, whatever goes wrong means *not
done*, even if the abort is not answered. From then on only the answer counts, and without one nobody knows. After that,
or if the library says that it can do no more, the client ends, and its successor takes over the transactional id.
"""

from __future__ import annotations

import time
from typing import Any

from tools.chaos.client_port import Client, Posted, TransactionFailed
from tools.chaos.copies import copy_key, copy_value
from tools.chaos.history import Key, Mop, Outcome, Poll, Send
from tools.chaos.payload import seal
from tools.chaos.reading import Reading

COPY_BYTES = 60


class Transaction:
    def __init__(self, client: Client, reading: Reading, request: dict[str, Any]) -> None:
        self._client = client
        self._reading = reading
        self._request = request
        self._mops: list[Mop] = []
        self._posted: list[tuple[int, Posted]] = []
        """What is not known to have arrived, and where it stands among the micro-operations."""
        self._is_decided = False
        """The client has asked for the commit."""

    def run(self) -> dict[str, Any]:
        try:
            outcome = self._copy() if self._request.get("attempt") is not None else self._mix()
        except TransactionFailed as failure:
            return self._answer(*self._give_up(failure), str(failure))
        if outcome is Outcome.FAIL:
            self._reading.rewind(self._polls())
        return self._answer(outcome)

    def _answer(self, outcome: Outcome, is_broken: bool = False, error: str = "") -> dict[str, Any]:
        mops = [mop.to_json() for mop in self._mops]
        rebalanced = self._reading.take_rebalanced()
        return {
            "outcome": outcome, "mops": mops, "rebalanced": rebalanced, "error": error, "is_broken": is_broken,
        }  # fmt: skip

    def _polls(self) -> list[Poll]:
        return [mop for mop in self._mops if isinstance(mop, Poll)]

    # --- what is done

    def _mix(self) -> Outcome:
        """Sends and polls as they are told."""
        self._client.begin()
        for kind, *what in self._request["mops"]:
            if kind == "poll":
                self._mops.append(self._reading.poll(self._request["seconds"], self._request["records_max"]))
            else:
                key, value, size = what
                self._send([(key, value)], size)
            time.sleep(self._request["delay_seconds"])
        return self._end()

    def _copy(self) -> Outcome:
        """What has been polled is written elsewhere, and its offsets are committed with it."""
        poll = self._reading.poll(self._request["seconds"], self._request["records_max"])
        self._mops.append(poll)
        if not poll.seen:
            return Outcome.OK
        self._client.begin()
        attempt = self._request["attempt"]
        self._send(
            [(copy_key(key), copy_value(offset, attempt)) for key, seen in poll.seen.items() for offset, _ in seen],
            COPY_BYTES,
        )
        time.sleep(self._request["delay_seconds"])
        self._client.send_offsets({key: seen[-1][0] + 1 for key, seen in poll.seen.items()})
        return self._end()

    def _send(self, values: list[tuple[Key, int]], size: int) -> None:
        at = len(self._mops)
        self._mops += [Send(key, value) for key, value in values]
        posted = self._client.post([(key, seal(key, value, size)) for key, value in values])
        self._posted.append((at, posted))
        if self._client.is_lost_by_failures or not self._request.get("is_hasty"):
            self._collect()

    def _collect(self) -> None:
        """What has become of the records that are on their way; if not all arrived, the transaction has failed."""
        errors: set[str] = set()
        while self._posted:
            begin, posted = self._posted.pop(0)
            for at, ack in enumerate(posted(), start=begin):
                sent = self._mops[at]
                assert isinstance(sent, Send)
                self._mops[at] = Send(sent.key, sent.value, ack.offset, ack.outcome is Outcome.OK)
                errors |= set() if ack.outcome is Outcome.OK else {ack.error}
        if errors:
            raise TransactionFailed(" ".join(sorted(errors)), self._client.is_lost_by_failures)

    def _end(self) -> Outcome:
        commits = self._request["commits"]
        self._is_decided = commits
        self._client.end(commits)
        if commits:
            self._collect()
        return Outcome.OK if commits else Outcome.FAIL

    def _give_up(self, failure: TransactionFailed) -> tuple[Outcome, bool]:
        """The outcome, and whether the client is at its end."""
        if self._is_decided:
            return Outcome.INFO, True
        if failure.is_fatal:
            return Outcome.FAIL, True
        try:
            self._client.end(commits=False)
        except TransactionFailed:
            return Outcome.FAIL, True
        self._reading.rewind(self._polls())
        return Outcome.FAIL, False
