"""The main job, end to end, with proof: `make demo`.

A node is started with one command. A client writes numbered payments; half-way the node is killed (SIGKILL) and started
again, while the client goes on. Then everything is read back: each payment must be there once, in order, and the sum
must be what it has to be. A second client adds the payments up in transactions, and its node is killed as well: each
payment must be in one subtotal. Then a pipeline on Spark archives the payments in a lake table, and Spark is killed:
each payment must be in the table once. At last the log files are checked on disk.
"""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tools.demo.payments import (
    PARTITIONS,
    PAYMENTS,
    QUIET,
    TOPIC,
    WAIT_SECONDS_MAX,
    NotProven,
    cents_of,
    prove,
    read_all,
    say,
)
from tools.demo.pipeline import archive_through_a_crash, why_not

OTTLA = str(Path(sys.executable).with_name("ottla"))
SUBTOTALS = "subtotals"
PAYMENTS_PER_TRANSACTION = 5_000


@dataclass
class Node:
    """`ottla start` as a child process, on a port that stays the same over restarts."""

    directory: Path
    port: int
    process: subprocess.Popen[str] | None = None

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> float:
        """Returns the seconds until it said that it listens."""
        began = time.monotonic()
        command = [OTTLA, "start", "--data-dir", str(self.directory), "--listen", self.bootstrap, "--log-level=warning"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if "is listening" not in line:
            raise NotProven(f"the node did not start (exit code {self.process.wait(WAIT_SECONDS_MAX)})")
        return time.monotonic() - began

    def end(self, how: signal.Signals) -> int:
        assert self.process is not None
        self.process.send_signal(how)
        return self.process.wait(WAIT_SECONDS_MAX)


@contextmanager
def running_node(directory: Path) -> Iterator[Node]:
    node = Node(directory, free_port())
    seconds = node.start()
    say(f"   ottla start --data-dir … --listen {node.bootstrap}   ({seconds:.2f} s)")
    try:
        yield node
    finally:
        if node.process is not None and node.process.poll() is None:
            node.end(signal.SIGTERM)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Sender:
    """Writes all payments with an idempotent producer, and counts what was acknowledged."""

    bootstrap: str
    acknowledged: int = 0
    refused: list[str] = field(default_factory=list)
    half_way: threading.Event = field(default_factory=threading.Event)

    def send_all(self) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "enable.idempotence": True,
                "linger.ms": 5,
                "compression.type": "lz4",
                "reconnect.backoff.max.ms": 250,
                **QUIET,
            }
        )
        for number in range(PAYMENTS):
            value = json.dumps({"number": number, "cents": cents_of(number)})
            self._send(producer, str(number % 1000), value)
            # Waiting here for half of the receipts is what puts the crash into the middle of the stream.
            while number == PAYMENTS * 2 // 3 and self.acknowledged < PAYMENTS // 2 and not self.refused:
                producer.poll(0.05)
        if producer.flush(WAIT_SECONDS_MAX):
            self.refused.append("some payments were never answered")

    def _send(self, producer: Producer, key: str, value: str) -> None:
        while True:
            try:
                producer.produce(TOPIC, value, key, on_delivery=self._on_delivery)
                producer.poll(0)
                return
            except BufferError:
                producer.poll(0.1)

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.refused.append(str(error))
            return
        self.acknowledged += 1
        if self.acknowledged == PAYMENTS // 2:
            self.half_way.set()


def write_through_a_crash(node: Node) -> None:
    sender = Sender(node.bootstrap)
    thread = threading.Thread(target=sender.send_all, daemon=True)
    began = time.monotonic()
    thread.start()
    if not sender.half_way.wait(WAIT_SECONDS_MAX):
        raise NotProven(f"only {sender.acknowledged:,} payments were taken: {sender.refused[:1]}")
    node.end(signal.SIGKILL)
    say(f"   {sender.acknowledged:,} payments taken, node killed with SIGKILL while more were on their way")
    say(f"   node started again on the same directory   ({node.start():.2f} s)")
    thread.join(WAIT_SECONDS_MAX)
    prove("the client never noticed: no payment was refused", sender.refused[:1], [])
    prove(f"all {PAYMENTS:,} payments were acknowledged", sender.acknowledged, PAYMENTS)
    say(f"   {PAYMENTS / (time.monotonic() - began):,.0f} payments a second, crash included")


def read_back(bootstrap: str) -> tuple[list[int], int, bool]:
    """The numbers read, the sum of their cents, and whether each partition held its numbers in order."""
    numbers: list[int] = []
    total, in_order, last = 0, True, [-1] * PARTITIONS
    for message in read_all(bootstrap, TOPIC, PARTITIONS):
        payment = json.loads(message.value() or b"{}")
        partition = message.partition() or 0
        in_order = in_order and payment["number"] > last[partition]
        last[partition] = payment["number"]
        numbers.append(payment["number"])
        total += payment["cents"]
    return numbers, total, in_order


def check_what_was_read(bootstrap: str) -> None:
    numbers, total, in_order = read_back(bootstrap)
    expected = sum(map(cents_of, range(PAYMENTS)))
    prove(f"{PAYMENTS:,} payments were read", len(numbers), PAYMENTS)
    prove("none is missing and none is there twice", sorted(numbers) == list(range(PAYMENTS)), True)
    prove("each partition holds its payments in order", in_order, True)
    prove(f"they add up to {expected / 100:,.2f}", total, expected)


@dataclass
class Adder:
    """Reads payments; subtotals, and the offsets up to which they count, are one transaction."""

    bootstrap: str
    added: int = 0
    attempts: int = 0
    half_way: threading.Event = field(default_factory=threading.Event)
    is_killed: threading.Event = field(default_factory=threading.Event)

    def add_all(self) -> None:
        settings = {
            "bootstrap.servers": self.bootstrap,
            "reconnect.backoff.max.ms": 250,
            # When librdkafka 2.16 has lost all brokers it forgets them, and then waits for a coordinator it forgot.
            "metadata.recovery.strategy": "none",
            **QUIET,
        }
        producer = Producer({"transactional.id": "adder", **settings})
        producer.init_transactions()
        consumer = Consumer(
            {"group.id": "adders", "auto.offset.reset": "earliest", "enable.auto.commit": False, **settings}
        )
        consumer.assign([TopicPartition(TOPIC, partition) for partition in range(PARTITIONS)])
        while self.added < PAYMENTS:
            payments = [one for one in consumer.consume(PAYMENTS_PER_TRANSACTION, 0.5) if one.error() is None]
            if payments:
                self._add(producer, consumer, payments)
        consumer.close()

    def _add(self, producer: Producer, consumer: Consumer, payments: list[Message]) -> None:
        producer.begin_transaction()
        self.attempts += 1
        try:
            subtotals = subtotals_of(payments)
            for subtotal in subtotals:
                producer.produce(SUBTOTALS, json.dumps(subtotal))
            if self.added >= PAYMENTS // 2 and not self.half_way.is_set():
                producer.flush(WAIT_SECONDS_MAX)
                self.half_way.set()
                # The subtotals are in the log, and nothing is decided.
                self.is_killed.wait(WAIT_SECONDS_MAX)
            offsets = [TopicPartition(TOPIC, one["partition"], one["end"]) for one in subtotals]
            until_decided(lambda: producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata()))
            until_decided(producer.commit_transaction)
            self.added += len(payments)
        except KafkaException as failure:
            if not failure.args[0].txn_requires_abort():
                raise
            until_decided(producer.abort_transaction)
            for place in consumer.committed(consumer.assignment()):
                consumer.seek(TopicPartition(TOPIC, place.partition, max(place.offset, 0)))


def subtotals_of(payments: list[Message]) -> list[dict[str, int]]:
    """One for each partition: which offsets it is about, and what they add up to."""
    found: dict[int, dict[str, int]] = {}
    for message in payments:
        partition, offset = message.partition() or 0, message.offset() or 0
        subtotal = found.setdefault(partition, {"partition": partition, "first": offset, "end": offset, "cents": 0})
        subtotal["cents"] += json.loads(message.value() or b"{}")["cents"]
        subtotal["end"] = offset + 1
    return list(found.values())


def until_decided(call: Callable[[], object]) -> None:
    while True:
        try:
            call()
            return
        except KafkaException as failure:
            if not failure.args[0].retriable():
                raise


def add_up_through_a_crash(node: Node) -> None:
    adder = Adder(node.bootstrap)
    thread = threading.Thread(target=adder.add_all, daemon=True)
    thread.start()
    if not adder.half_way.wait(WAIT_SECONDS_MAX):
        raise NotProven(f"only {adder.added:,} payments were added up")
    node.end(signal.SIGKILL)
    adder.is_killed.set()
    say(f"   {adder.added:,} payments added up, node killed with SIGKILL in the middle of a transaction")
    say(f"   node started again on the same directory   ({node.start():.2f} s)")
    thread.join(WAIT_SECONDS_MAX)
    prove(f"all {PAYMENTS:,} payments are added up, in {adder.attempts} transactions", adder.added, PAYMENTS)


def check_the_subtotals(bootstrap: str) -> None:
    subtotals = [json.loads(message.value() or b"{}") for message in read_all(bootstrap, SUBTOTALS, 1)]
    ends, follows = [0] * PARTITIONS, True
    for one in subtotals:
        follows = follows and one["first"] == ends[one["partition"]]
        ends[one["partition"]] = one["end"]
    prove("each subtotal begins where the one before has ended", follows, True)
    prove("none leaves a payment out or counts one twice", sum(ends), PAYMENTS)
    expected = sum(map(cents_of, range(PAYMENTS)))
    prove(f"they add up to {expected / 100:,.2f}", sum(one["cents"] for one in subtotals), expected)


def check_the_files(directory: Path) -> None:
    for path in [
        *(directory / f"{TOPIC}-{partition}" for partition in range(PARTITIONS)),
        directory / f"{SUBTOTALS}-0",
    ]:
        done = subprocess.run([OTTLA, "log", "dump", str(path)], capture_output=True, text=True, check=False)
        summary = (done.stdout.splitlines() or [""])[-1].strip()
        prove(f"ottla log dump {path.name}: checksums, order and indexes are sound ({summary})", done.returncode, 0)


def run(directory: Path) -> None:
    say("1. Start a node")
    with running_node(directory) as node:
        say("2. Create two topics")
        admin = AdminClient({"bootstrap.servers": node.bootstrap, **QUIET})
        for future in admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1), NewTopic(SUBTOTALS, 1, 1)]).values():
            future.result(WAIT_SECONDS_MAX)
        say(f"   {TOPIC}, {PARTITIONS} partitions; {SUBTOTALS}, one")
        say("3. Write payments, and kill the node in the middle")
        write_through_a_crash(node)
        say("4. Read everything back")
        check_what_was_read(node.bootstrap)
        say("5. Add the payments up in transactions, and kill the node in the middle")
        add_up_through_a_crash(node)
        check_the_subtotals(node.bootstrap)
        say("6. Archive the payments by a pipeline on Spark, and kill Spark in the middle")
        if (missing := why_not()) is None:
            archive_through_a_crash(node.bootstrap, directory)
        else:
            say(f"   left out: {missing}")
        say("7. Stop the node, check the files")
        prove("the node stops cleanly", node.end(signal.SIGTERM), 0)
    check_the_files(directory)


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="ottla-demo-") as directory:
        try:
            run(Path(directory))
        except NotProven as failure:
            say(f"   ✘ {failure}")
            return 1
    say("Proven.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
