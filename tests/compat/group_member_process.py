"""A member in a process of its own, to be stopped and killed: says on stdout what happens to it, as JSON lines, commits
what it has seen whenever it reads a line on stdin, and ends cleanly when stdin ends.
"""

from __future__ import annotations

import json
import sys
import threading
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition


def say(event: str, **fields: Any) -> None:
    print(json.dumps({"event": event, **fields}), flush=True)


def main(settings: dict[str, Any], topic: str) -> None:
    consumer = Consumer(settings)
    positions: dict[int, int] = {}
    asked, ended = threading.Semaphore(0), threading.Event()

    def listen() -> None:
        for _ in sys.stdin:
            asked.release()
        ended.set()

    threading.Thread(target=listen, daemon=True).start()

    def said(event: str) -> Any:
        return lambda _, partitions: say(event, partitions=[one.partition for one in partitions])

    consumer.subscribe([topic], on_assign=said("assigned"), on_revoke=said("revoked"), on_lost=said("lost"))
    while not ended.is_set():
        if asked.acquire(blocking=False):
            offsets = [TopicPartition(topic, partition, offset) for partition, offset in positions.items()]
            try:
                consumer.commit(offsets=offsets, asynchronous=False)
                say("committed", offsets=positions)
            except KafkaException as refused:
                say("refused", error=refused.args[0].name())
        message = consumer.poll(0.05)
        if message is not None and message.error() is None:
            positions[message.partition()] = message.offset() + 1
            say("seen", partition=message.partition(), offset=message.offset())
    consumer.close()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), sys.argv[2])
