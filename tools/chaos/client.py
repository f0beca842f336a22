"""One client in a process of its own, so that it can be killed: requests come as JSON lines, answers go as such."""

from __future__ import annotations

import faulthandler
import json
import signal
import sys
from typing import Any

from tools.chaos.client_port import Ack, Client, ClientBroken, Settings
from tools.chaos.history import Outcome, Send
from tools.chaos.payload import seal
from tools.chaos.reading import Reading
from tools.chaos.transacting import Transaction

SAY_WHERE = signal.SIGUSR1
"""What a client that is silent for too long is sent before it is killed: all threads say where they are."""


def make_client(settings: Settings) -> Client:
    """Only the library that is wanted is loaded."""
    if settings.library == "aiokafka":
        from tools.chaos.client_aiokafka import AiokafkaClient

        return AiokafkaClient(settings)
    if settings.library == "kafka-python":
        from tools.chaos.client_kafka_python import KafkaPythonClient

        return KafkaPythonClient(settings)
    if settings.library == "ottla":
        from tools.chaos.client_ottla import OttlaClient

        return OttlaClient(settings)
    if settings.library == "java":
        from tools.chaos.client_java import JavaClient

        return JavaClient(settings)
    from tools.chaos.client_confluent import ConfluentClient

    return ConfluentClient(settings)


class Servant:
    """Does what it is told with a client, and says what came of it."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._reading = Reading(client)

    def serve(self, request: dict[str, Any]) -> dict[str, Any]:
        match request["f"]:
            case "send":
                return self._send(request)
            case "poll":
                return self._poll(request)
            case "txn":
                return Transaction(self._client, self._reading, request).run()
            case "assign":
                self._reading.assign(request["keys"])
            case "subscribe":
                self._reading.subscribe(request["keys"])
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
        poll = self._reading.poll(request["seconds"], request["records_max"])
        if request["commits"]:
            self._client.commit()
        return {"outcome": Outcome.OK, "mops": [poll.to_json()], "rebalanced": self._reading.take_rebalanced()}


def _together(acks: list[Ack]) -> Outcome:
    outcomes = {ack.outcome for ack in acks}
    return outcomes.pop() if len(outcomes) == 1 else Outcome.INFO


def main() -> None:
    faulthandler.register(SAY_WHERE)
    try:
        servant = Servant(make_client(Settings(**json.loads(sys.argv[1]))))
        print(json.dumps({"ready": True}), flush=True)
        for line in sys.stdin:
            print(json.dumps(servant.serve(json.loads(line))), flush=True)
    except ClientBroken as broken:
        sys.exit(str(broken))


if __name__ == "__main__":
    main()
