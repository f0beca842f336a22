"""Fetch: whole batches, size rules (KIP-74), long polls, watermarks."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from .batches import batch
from .raw import FOREVER, Raw

OUT_OF_RANGE = 1
WAIT_MS = 400
FIVE = [b"x" * 100] * 5
SIZE = len(batch(*FIVE))


@pytest.fixture
def topic(raw: Raw) -> str:
    """Four batches of five records."""
    name = raw.create(partitions=2)
    for _ in range(4):
        raw.append(name, *FIVE)
    return name


def bases(raw: Raw, topic: str, offset: int, **changes: int) -> list[int]:
    return [header.base_offset for header in raw.batches(topic, offset, **changes)]


def test_fetch_inside_a_batch_starts_with_the_whole_batch(raw: Raw, topic: str) -> None:
    assert bases(raw, topic, 7) == [5, 10, 15]


def test_stored_batch_is_the_sent_one_but_for_offset_and_epoch(raw: Raw) -> None:
    topic = raw.create(configs=FOREVER)
    raw.append(topic, b"first")
    sent = batch(b"a", b"b", base_timestamp=1_700_000_000_000)
    raw.produce(topic, sent)
    got = raw.fetch(topic, 1)["records"]
    assert got[:8] == (1).to_bytes(8, "big")
    assert got[12:16] == bytes(4)
    assert (got[8:12], got[16:]) == (sent[8:12], sent[16:])


@pytest.mark.parametrize("limit", ["partition_max_bytes", "max_bytes"])
@pytest.mark.parametrize(
    ("size", "count"), [(0, 1), (1, 1), (SIZE - 1, 1), (SIZE, 1), (2 * SIZE - 1, 1), (2 * SIZE, 2), (2 * SIZE + 1, 2)]
)
def test_limit_cuts_between_batches_but_never_before_the_first(
    raw: Raw, topic: str, limit: str, size: int, count: int
) -> None:
    assert bases(raw, topic, 0, **{limit: size}) == [0, 5, 10, 15][:count]


def test_negative_limit_gives_nothing(raw: Raw, topic: str) -> None:
    assert raw.fetch(topic, 0, partition_max_bytes=-1)["batches"] == []
    assert raw.fetch(topic, 0, max_bytes=-1)["batches"] == []


def test_only_the_first_partition_may_exceed_the_limit(raw: Raw, topic: str) -> None:
    raw.append(topic, *FIVE, partition=1)

    def sizes(max_bytes: int, *wanted: tuple[int, int]) -> list[tuple[int, int]]:
        parts = [{"partition": at, "fetch_offset": 0, "partition_max_bytes": limit} for at, limit in wanted]
        asked = {"max_wait": 0, "min_bytes": 1, "max_bytes": max_bytes}
        answer = raw.ask("fetch", 12, replica_id=-1, topics=[{"topic": topic, "partitions": parts}], **asked)
        return [(p["partition_index"], len(p["records"] or b"")) for p in answer["responses"][0]["partitions"]]

    assert sizes(1, (0, 1000), (1, 1000)) == [(0, SIZE), (1, 0)]
    assert sizes(1_000_000, (0, 1), (1, 1)) == [(0, SIZE), (1, 0)]
    assert sizes(1_000_000, (1, 1), (0, 1)) == [(1, SIZE), (0, 0)]
    assert sizes(2 * SIZE, (0, 1_000_000), (1, 1_000_000)) == [(0, 2 * SIZE), (1, 0)]
    assert sizes(5 * SIZE, (0, 1_000_000), (1, 1_000_000)) == [(0, 4 * SIZE), (1, SIZE)]


def test_offset_out_of_range_is_said(raw: Raw, topic: str) -> None:
    for offset in (-1, 21, 2**63 - 1):
        answer = raw.fetch(topic, offset)
        assert (answer["error_code"], answer["high_watermark"]) == (OUT_OF_RANGE, -1)
    answer = raw.fetch(topic, 20)
    assert (answer["error_code"], answer["high_watermark"], answer["batches"]) == (0, 20, [])


def waited_ms(raw: Raw, topic: str, offset: int, **changes: int) -> float:
    before = time.monotonic()
    raw.fetch(topic, offset, **changes)
    return (time.monotonic() - before) * 1000


def test_fetch_waits_for_min_bytes_no_longer_than_max_wait(raw: Raw, topic: str) -> None:
    assert waited_ms(raw, topic, 20, max_wait=WAIT_MS) >= WAIT_MS
    assert waited_ms(raw, topic, 15, max_wait=WAIT_MS, min_bytes=SIZE + 1) >= WAIT_MS


def test_every_short_poll_ends(raw: Raw, topic: str) -> None:
    """A timer may fire a hair before its time; whoever then waits on waits for ever."""

    def poll(wait_ms: int) -> bool:
        with Raw(*raw.address) as mine:
            return all(mine.fetch(topic, 20, max_wait=wait_ms)["batches"] == [] for _ in range(40))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(poll, range(1, 9)))


@pytest.mark.parametrize(
    ("offset", "changes"),
    [
        (0, {"min_bytes": 10}),
        (20, {"min_bytes": 0}),
        (20, {"min_bytes": -1}),
        (99, {}),
        (0, {"partition": 9}),
        (0, {"min_bytes": 5000, "max_bytes": SIZE}),
    ],
)
def test_fetch_that_needs_no_waiting_is_answered_at_once(
    raw: Raw, topic: str, offset: int, changes: dict[str, int]
) -> None:
    """The wait asked for is longer than the connection's own timeout, so waiting it out fails."""
    raw.fetch(topic, offset, max_wait=120_000, **changes)


def test_negative_max_wait_does_not_wait(raw: Raw, topic: str) -> None:
    assert raw.fetch(topic, 20, max_wait=-1)["batches"] == []


def test_produce_ends_a_waiting_fetch(raw: Raw, topic: str) -> None:
    raw.send("fetch", 12, raw.fetch_request(topic, 20, max_wait=120_000))
    with Raw(*raw.address) as other:
        other.append(topic, b"news")
    answer = raw.receive("fetch", 12)["responses"][0]["partitions"][0]
    assert answer["high_watermark"] == 21
    assert answer["records"]


def test_waiting_fetch_is_ended_by_the_record_that_makes_enough_bytes(raw: Raw, topic: str) -> None:
    raw.send("fetch", 12, raw.fetch_request(topic, 20, max_wait=120_000, min_bytes=3 * SIZE))
    with Raw(*raw.address) as other:
        for _ in range(3):
            other.append(topic, *FIVE)
    answer = raw.receive("fetch", 12)["responses"][0]["partitions"][0]
    assert len(answer["records"]) == 3 * SIZE


def test_many_waiting_fetches_all_wake(raw: Raw, topic: str) -> None:
    got: list[int] = []

    def wait() -> None:
        with Raw(*raw.address) as mine:
            got.append(len(mine.batches(topic, 20, max_wait=120_000)))

    waiters = [threading.Thread(target=wait) for _ in range(8)]
    for waiter in waiters:
        waiter.start()
    raw.append(topic, b"news")
    for waiter in waiters:
        waiter.join(30)
    assert got == [1] * 8


def test_answers_keep_the_order_of_the_requests(raw: Raw, topic: str) -> None:
    sent = [
        raw.send("fetch", 12, raw.fetch_request(topic, 20, max_wait=WAIT_MS)),
        raw.send("metadata", 1, {"topics": []}),
        raw.send("api_versions", 0, {}),
    ]
    answered = []
    for api, version in (("fetch", 12), ("metadata", 1), ("api_versions", 0)):
        raw.receive(api, version)
        answered.append(raw.answered)
    assert answered == sent


def test_topic_ids_go_with_their_topic(raw: Raw, topic: str) -> None:
    topic_id = raw.topic_id(topic)
    assert raw.fetch("", 0, version=13, topic_id=topic_id)["high_watermark"] == 20
    raw.ask("delete_topics", 6, timeout=20_000, topics=[{"name": None, "topic_id": topic_id}])
    deadline = time.monotonic() + 20
    while raw.fetch("", 0, version=13, topic_id=topic_id)["error_code"] != 100:
        assert time.monotonic() < deadline
    again = raw.ask(
        "create_topics", 7, timeout=20_000, topics=[{"name": topic, "num_partitions": 1, "replication_factor": 1}]
    )
    assert again["topics"][0]["topic_id"] != topic_id
    raw.wait_ready(topic)
    assert raw.fetch("", 0, version=13, topic_id=again["topics"][0]["topic_id"])["high_watermark"] == 0


def test_fetch_session_is_answered_or_declined(raw: Raw, topic: str) -> None:
    answer = raw.ask("fetch", 12, **raw.fetch_request(topic, 20, session_id=0, session_epoch=0))
    assert answer["error_code"] == 0
    if answer["session_id"] == 0:
        return
    raw.append(topic, b"news")
    later = raw.ask(
        "fetch", 12, max_wait=1000, min_bytes=1, session_id=answer["session_id"], session_epoch=1, topics=[]
    )
    assert later["responses"][0]["partitions"][0]["high_watermark"] == 21


@pytest.mark.parametrize(("session_id", "epoch"), [(12345, 1), (0, 5)])
def test_unknown_fetch_session_is_refused(raw: Raw, topic: str, session_id: int, epoch: int) -> None:
    answer = raw.ask("fetch", 12, **raw.fetch_request(topic, 20, session_id=session_id, session_epoch=epoch))
    assert answer["error_code"] == 70


def test_replica_that_is_none_gets_no_data(raw: Raw, topic: str) -> None:
    for replica in (raw.node_id, raw.node_id + 77):
        answer = raw.fetch(topic, 0, replica_id=replica)
        assert answer["error_code"] != 0
        assert answer["batches"] == []
