"""One client in a process of its own, so that it can be killed: requests come as JSON lines, answers go as such."""

from __future__ import annotations

import json
import sys
from typing import Any

from tools.chaos.client_port import Ack, Client, ClientBroken, Settings
from tools.chaos.history import Key, Outcome, Poll, Send, Value
from tools.chaos.payload import seal, split_key, unseal


def make_client(settings: Settings) -> Client:
    """Only the library that is wanted is loaded."""
    if settings.library == "aiokafka":
        from tools.chaos.client_aiokafka import AiokafkaClient

        return AiokafkaClient(settings)
    if settings.library == "kafka-python":
        from tools.chaos.client_kafka_python import KafkaPythonClient

        return KafkaPythonClient(settings)
    from tools.chaos.client_confluent import ConfluentClient

    return ConfluentClient(settings)


class Servant:
    """Does what it is told with a client, and says what came of it."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._positions: dict[Key, int] = {}
        """Of the keys that are assigned: the next offset."""

    def serve(self, request: dict[str, Any]) -> dict[str, Any]:
        match request["f"]:
            case "send":
                return self._send(request)
            case "poll":
                return self._poll(request)
            case "assign":
                kept = {key: self._positions.get(key, offset) for key, offset in request["keys"].items()}
                self._client.assign(kept)
                self._positions = kept
            case "subscribe":
                self._positions = {}
                self._client.subscribe(sorted({split_key(key)[0] for key in request["keys"]}))
        return {"outcome": Outcome.OK, "mops": []}

    def _send(self, request: dict[str, Any]) -> dict[str, Any]:
        wanted = request["sends"]
        acks = self._client.send([(key, seal(key, value, size)) for key, value, size in wanted])
        sends = [
            Send(key, value, ack.offset, ack.outcome is Outcome.OK)
            for (key, value, _), ack in zip(wanted, acks, strict=True)
        ]
        errors = sorted({ack.error for ack in acks if ack.error})
        return {"outcome": _together(acks), "mops": [send.to_json() for send in sends], "error": " ".join(errors)}

    def _poll(self, request: dict[str, Any]) -> dict[str, Any]:
        received = self._client.poll(request["seconds"], request["records_max"])
        seen: dict[Key, list[tuple[int, Value]]] = {}
        for record in received:
            seen.setdefault(record.key, []).append((record.offset, unseal(record.key, record.data)))
            if record.key in self._positions:
                self._positions[record.key] = record.offset + 1
        if request["commits"]:
            self._client.commit()
        rebalanced = sorted(self._client.rebalanced)
        self._client.rebalanced.difference_update(rebalanced)
        poll = Poll({key: tuple(pairs) for key, pairs in seen.items()})
        return {"outcome": Outcome.OK, "mops": [poll.to_json()], "rebalanced": rebalanced}


def _together(acks: list[Ack]) -> Outcome:
    outcomes = {ack.outcome for ack in acks}
    return outcomes.pop() if len(outcomes) == 1 else Outcome.INFO


def main() -> None:
    servant = Servant(make_client(Settings(**json.loads(sys.argv[1]))))
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        try:
            answer = servant.serve(json.loads(line))
        except ClientBroken as broken:
            sys.exit(str(broken))
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
