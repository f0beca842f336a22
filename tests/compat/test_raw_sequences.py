"""Idempotent producers: sequences, duplicates, epochs. The answers are Apache Kafka's."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from .batches import batch
from .brokers import Broker
from .raw import FOREVER, LATEST, Raw

OUT_OF_ORDER, OLD_EPOCH = 45, 47
Send = Callable[..., tuple[int, int]]


def sender(raw: Raw, topic: str, producer_id: int) -> Send:
    def send(sequence: int, count: int = 1, epoch: int = 0) -> tuple[int, int]:
        data = batch(*[b"v"] * count, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
        answer = raw.produce(topic, data)
        return answer["error_code"], answer["base_offset"]

    return send


@pytest.fixture
def send(raw: Raw) -> Send:
    return sender(raw, raw.create(), raw.new_producer_id())


def test_producer_ids_are_never_given_twice(raw: Raw) -> None:
    given = [raw.new_producer_id() for _ in range(20)]
    assert len(set(given)) == 20


def test_sequences_in_order_are_appended(send: Send) -> None:
    assert [send(sequence) for sequence in range(7)] == [(0, offset) for offset in range(7)]


def test_duplicate_of_one_of_the_last_five_batches_gets_its_old_offset(send: Send) -> None:
    for sequence in range(7):
        send(sequence)
    assert [send(sequence) for sequence in (6, 5, 4, 3, 2)] == [(0, 6), (0, 5), (0, 4), (0, 3), (0, 2)]


def test_older_duplicate_is_out_of_order(send: Send) -> None:
    for sequence in range(7):
        send(sequence)
    assert [send(sequence) for sequence in (1, 0)] == [(OUT_OF_ORDER, -1)] * 2
    assert send(7) == (0, 7)


def test_duplicate_is_known_by_its_first_and_last_sequence(send: Send) -> None:
    assert send(0, count=3) == (0, 0)
    assert send(3, count=2) == (0, 3)
    assert send(0, count=3) == (0, 0)
    assert send(0, count=2) == (OUT_OF_ORDER, -1)
    assert send(2, count=3) == (OUT_OF_ORDER, -1)
    assert send(5) == (0, 5)


def test_gap_is_refused_and_the_next_sequence_still_fits(send: Send) -> None:
    send(0)
    assert send(2) == (OUT_OF_ORDER, -1)
    assert send(1) == (0, 1)


def test_new_epoch_starts_at_zero(send: Send) -> None:
    send(0)
    assert send(1, epoch=1) == (OUT_OF_ORDER, -1)
    assert send(0, epoch=1) == (0, 1)
    assert send(1, epoch=1) == (0, 2)


def test_older_epoch_is_fenced_even_for_a_duplicate(send: Send) -> None:
    send(0)
    send(0, epoch=1)
    assert send(1) == (OLD_EPOCH, -1)
    assert send(0) == (OLD_EPOCH, -1)
    assert send(0, epoch=1) == (0, 1)


def test_producer_the_partition_does_not_know_may_start_anywhere(raw: Raw) -> None:
    send = sender(raw, raw.create(), 987_654_321)
    assert send(5) == (0, 0)
    assert send(6) == (0, 1)
    assert send(5) == (0, 0)


def test_sequence_wraps_to_zero(raw: Raw) -> None:
    send = sender(raw, raw.create(), 987_654_322)
    assert send(2**31 - 2, count=2) == (0, 0)
    assert send(0) == (0, 2)
    assert send(1) == (0, 3)


def test_one_batch_may_wrap(raw: Raw) -> None:
    send = sender(raw, raw.create(), 987_654_323)
    assert send(2**31 - 1, count=3) == (0, 0)
    assert send(2) == (0, 3)
    assert send(2**31 - 1, count=3) == (0, 0)


def test_sequences_count_per_partition(raw: Raw) -> None:
    producer_id = raw.new_producer_id()
    first, second = (sender(raw, raw.create(), producer_id) for _ in range(2))
    assert [first(0), second(0), first(1), second(1)] == [(0, 0), (0, 0), (0, 1), (0, 1)]


def test_duplicate_is_answered_with_the_time_of_the_first(raw: Raw) -> None:
    topic, producer_id = raw.create(configs=FOREVER), raw.new_producer_id()
    data = batch(b"v", producer_id=producer_id, producer_epoch=0, base_sequence=0, base_timestamp=1_700_000_000_000)
    assert raw.produce(topic, data)["log_append_time"] is None
    assert raw.produce(topic, data)["log_append_time"] == 1_700_000_000_000


def test_two_batches_of_a_pipeline_keep_their_order(raw: Raw) -> None:
    topic, producer_id = raw.create(), raw.new_producer_id()
    for sequence in range(5):
        data = batch(b"v", producer_id=producer_id, producer_epoch=0, base_sequence=sequence)
        parts = [{"index": 0, "records": data}]
        raw.send("produce", 9, {"acks": -1, "timeout": 5000, "topic_data": [{"name": topic, "partition_data": parts}]})
    answers = [raw.receive("produce", 9)["responses"][0]["partition_responses"][0] for _ in range(5)]
    assert [(answer["error_code"], answer["base_offset"]) for answer in answers] == [(0, at) for at in range(5)]


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_duplicates_are_known_after_a_restart(new_broker: Callable[[], Broker], how: str) -> None:
    broker = new_broker()
    with Raw(broker.host, broker.port) as raw:
        topic, producer_id = raw.create(), raw.new_producer_id()
        send = sender(raw, topic, producer_id)
        assert [send(sequence) for sequence in range(3)] == [(0, 0), (0, 1), (0, 2)]
    getattr(broker, how)()
    broker.start()
    with Raw(broker.host, broker.port) as raw:
        raw.wait_ready(topic)
        send = sender(raw, topic, producer_id)
        assert send(2) == (0, 2)
        assert send(4) == (OUT_OF_ORDER, -1)
        assert send(3) == (0, 3)
        assert raw.new_producer_id() != producer_id
        assert raw.list_offset(topic, LATEST)["offset"] == 4
