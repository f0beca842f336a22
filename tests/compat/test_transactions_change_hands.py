"""Transactions in a data directory that goes from one broker to the other and back: decided ones and open ones."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from .brokers import Broker, KafkaBroker, OttlaBroker, discard
from .java import Missing, kafka_libs, run_kafka
from .raw import FOREVER
from .transaction_talk import NOBODY, NOT_YET, SECONDS_MAX, TxnRaw, TxnTalk, offsets, stable, wait_for_coordinators
from .wire import Fields

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300)]
DUMP = "org.apache.kafka.tools.DumpLogSegments"
COMPLAINTS = ("Found", "ismatch", "Could not", "isvalid: false", "Exception", "corrupt", "out of order")


@pytest.fixture(autouse=True, scope="module")
def jars() -> None:
    try:
        kafka_libs()
    except Missing as missing:
        pytest.skip(str(missing))


class Keeper:
    """A producer of transactions that outlives the nodes it talks to."""

    def __init__(self, name: str, topic: str) -> None:
        self.me: Fields = {"transactional_id": name, **NOBODY}
        self.topic = topic
        self.sequence = 0
        self.written: list[bytes] = []

    def begin(self, talk: TxnTalk) -> None:
        asked = {"transactional_id": self.me["transactional_id"], "transaction_timeout": 600_000, **NOBODY}
        answer = patiently(talk, "init_producer_id", 5, asked)
        self.me |= {key: answer[key] for key in NOBODY}

    def write(self, talk: TxnTalk) -> None:
        talk.topic = self.topic
        answer = talk.write(self.me, "writes", 12, sequence=self.sequence)
        assert answer["responses"][0]["partition_responses"][0]["error_code"] == 0, answer
        self.sequence += 1

    def commit_offset(self, talk: TxnTalk, group: str, offset: int) -> None:
        talk.topic = self.topic
        answer = talk("offsets", "txn_offset_commit", 5, **offsets(talk, self.me, group, 5, offset=offset))
        assert answer["topics"][0]["partitions"][0]["error_code"] == 0, answer

    def end(self, talk: TxnTalk, committed: bool) -> None:
        answer = talk.end(self.me, committed, "ends", 5)
        assert answer["error_code"] == 0, answer
        self.me |= {key: answer[key] for key in NOBODY}
        self.sequence = 0


def patiently(talk: TxnTalk, api: str, version: int, asked: Fields) -> Fields:
    deadline = time.monotonic() + SECONDS_MAX
    while (answer := talk.raw.ask(api, version, **asked))["error_code"] in NOT_YET:
        assert time.monotonic() < deadline, answer
        time.sleep(0.02)
    assert answer["error_code"] == 0, answer
    return answer


def talking(broker: Broker) -> TxnTalk:
    raw = TxnRaw(broker.host, broker.port)
    wait_for_coordinators(raw)
    return TxnTalk(raw)


def readable(talk: TxnTalk, topic: str) -> list[tuple[int, int]]:
    """Producer id and epoch of each batch that a reader of committed data is shown, markers left out."""
    found: list[tuple[int, int]] = []
    talk.raw.wait_ready(topic)
    answer = talk.raw.fetch(topic, 0, isolation_level=1)
    aborted = {(one["producer_id"], one["first_offset"]) for one in answer["aborted_transactions"] or ()}
    passed_over: set[int] = set()
    for header in answer["batches"]:
        passed_over |= {producer for producer, first in aborted if first <= header.base_offset}
        aborted = {one for one in aborted if one[1] > header.base_offset}
        if header.attributes & 0x20:
            passed_over.discard(header.producer_id)
        elif header.producer_id not in passed_over:
            found.append((header.producer_id, header.producer_epoch))
    return found


def committed_offset(talk: TxnTalk, topic: str, group: str) -> tuple[int, int]:
    """The stable offset of a group, and the error in its place."""
    talk.topic = topic
    found = talk.raw.ask("offset_fetch", 9, **stable(group, talk, 9))["groups"][0]
    deadline = time.monotonic() + SECONDS_MAX
    while found["error_code"] in NOT_YET:
        assert time.monotonic() < deadline, found
        found = talk.raw.ask("offset_fetch", 9, **stable(group, talk, 9))["groups"][0]
    [one] = found["topics"][0]["partitions"]
    return one["committed_offset"], one["error_code"]


@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
@pytest.mark.parametrize("first", ["ottla", "apache"])
def test_open_transactions_go_on_and_end_under_the_other_broker(tmp_path: Path, first: str, kill: bool) -> None:
    ottla, apache = OttlaBroker(tmp_path / "ottla"), KafkaBroker(tmp_path / "kafka")
    apache.data_dir = ottla.data_dir
    turns: list[Broker] = [ottla, apache, ottla] if first == "ottla" else [apache, ottla, apache]
    unstable = 88
    try:
        turns[0].start()
        talk = talking(turns[0])
        topic, group = talk.raw.create("moves", configs=FOREVER), talk.raw.name("group")
        decided, kept, other = (Keeper(talk.raw.name(name), topic) for name in ("decided", "kept", "other"))
        for keeper in (decided, kept, other):
            keeper.begin(talk)
        expected: list[tuple[int, int]] = []
        for committed in (True, False):
            decided.write(talk)
            if committed:
                expected.append((decided.me["producer_id"], decided.me["producer_epoch"]))
            decided.end(talk, committed)
        for turn, broker in enumerate(turns):
            # What is open now is ended by the next broker, half of it this way and half of it the other.
            kept.write(talk)
            kept.commit_offset(talk, group, turn)
            other.write(talk)
            assert readable(talk, topic) == expected
            assert committed_offset(talk, topic, group)[1] == unstable
            if broker is turns[-1]:
                break
            broker.kill() if kill else broker.stop()
            turns[turn + 1].start()
            talk = talking(turns[turn + 1])
            assert committed_offset(talk, topic, group)[1] == unstable
            assert readable(talk, topic) == expected
            kept.write(talk)
            expected += [(kept.me["producer_id"], kept.me["producer_epoch"])] * 2
            kept.end(talk, True)
            other.end(talk, False)
            wait_until(lambda talk=talk, expected=expected: readable(talk, topic) == expected)
            wait_until(lambda talk=talk, turn=turn: committed_offset(talk, topic, group) == (turn, 0))
    finally:
        for broker in turns:
            discard(broker)


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_apache_finds_no_fault_in_what_transactions_leave_behind(new_broker: Callable[[], Broker]) -> None:
    broker = new_broker()
    talk = talking(broker)
    topic, group = talk.raw.create("moves", configs={**FOREVER, "segment.ms": "1"}), talk.raw.name("group")
    keepers = [Keeper(talk.raw.name(f"id{at}"), topic) for at in range(4)]
    for at, keeper in enumerate(keepers):
        keeper.begin(talk)
        keeper.write(talk)
        keeper.commit_offset(talk, group, at)
        time.sleep(0.01)  # each in a segment of its own
    for at, keeper in enumerate(keepers[:-1]):
        keeper.end(talk, committed=at == 0)
    broker.stop()
    directory = broker.partition_dir(topic)
    shown = dump(directory, "*.txnindex")
    assert len(re.findall(r"producerId: \d+ firstOffset: \d+ lastOffset: \d+", shown)) == 2, shown
    shown = dump(directory, "*.snapshot")
    assert "currentTxnFirstOffset: OptionalLong[3]" in shown, shown
    assert dump(directory, "*.log", "--deep-iteration").count("endTxnMarker: ABORT") == 2
    shown = "".join(
        dump(where, "*.log", "--transaction-log-decoder")
        for where in sorted(broker.data_dir.glob("__transaction_state-*"))
        if any(file.stat().st_size for file in where.glob("*.log"))
    )
    for state in (0, 1, 2, 3, 4, 5):  # Empty, Ongoing, and each way to the end
        assert f'"transactionStatus":{state}' in shown, state
    shown = "".join(
        dump(where, "*.log", "--offsets-decoder")
        for where in sorted(broker.data_dir.glob("__consumer_offsets-*"))
        if any(file.stat().st_size for file in where.glob("*.log"))
    )
    assert group in shown and "endTxnMarker: COMMIT" in shown


def dump(directory: Path, pattern: str, *options: str) -> str:
    names = ",".join(sorted(str(file) for file in directory.glob(pattern)))
    done = run_kafka(DUMP, *options, "--files", names)
    assert done.returncode == 0, done.stderr
    shown = done.stdout + done.stderr
    assert not [complaint for complaint in COMPLAINTS if complaint in shown], shown
    return shown
