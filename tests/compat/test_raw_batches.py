"""What the node says to record batches that no honest client sends; the codes are Apache Kafka's."""

from __future__ import annotations

import struct
import time

import pytest

from .batches import Batch, batch, record, records, zigzag
from .raw import LATEST, Raw
from .wire import Closed

NONE, UNKNOWN_SERVER_ERROR, CORRUPT, UNKNOWN_TOPIC, TOO_LARGE, LIST_TOO_LARGE = 0, -1, 2, 3, 10, 18
BAD_ACKS, BAD_TIMESTAMP, FORBIDDEN_TRANSACTION, UNSUPPORTED_CODEC, INVALID_RECORD = 21, 32, 53, 76, 87
HOUR_MS = 3_600_000


def now_ms() -> int:
    return time.time_ns() // 1_000_000


REFUSED: dict[str, tuple[bytes, int]] = {
    "two batches": (batch(b"a") + batch(b"b"), INVALID_RECORD),
    "no bytes": (b"", INVALID_RECORD),
    "ten bytes": (bytes(10), INVALID_RECORD),
    "a base offset": (Batch(base_offset=5).encode(), INVALID_RECORD),
    "a negative base offset": (Batch(base_offset=-1).encode(), INVALID_RECORD),
    "length 0": (Batch(batch_length=0).encode(), CORRUPT),
    "a negative length": (Batch(batch_length=-5).encode(), CORRUPT),
    "a length below the header's": (Batch(batch_length=48).encode(), CORRUPT),
    "a length above the rest": (Batch(batch_length=10_000).encode(), INVALID_RECORD),
    "a length of 2^30": (Batch(batch_length=2**30).encode(), INVALID_RECORD),
    "a last offset delta too large": (Batch(last_offset_delta=1).encode(), INVALID_RECORD),
    "a negative last offset delta": (Batch(last_offset_delta=-1).encode(), INVALID_RECORD),
    "a last offset delta of 2^31-1": (Batch(last_offset_delta=2**31 - 1).encode(), INVALID_RECORD),
    "no records": (Batch(payload=b"", count=0).encode(), INVALID_RECORD),
    "a negative count": (Batch(count=-1, last_offset_delta=0).encode(), INVALID_RECORD),
    "a wrong CRC": (Batch(crc=1).encode(), CORRUPT),
    "magic 0": (Batch(magic=0).encode(), INVALID_RECORD),
    "magic 1": (Batch(magic=1).encode(), INVALID_RECORD),
    "magic 3": (Batch(magic=3).encode(), CORRUPT),
    "magic 127": (Batch(magic=127).encode(), CORRUPT),
    "magic -1": (Batch(magic=-1).encode(), CORRUPT),
    "a control batch": (Batch(attributes=0x20).encode(), INVALID_RECORD),
    "a transaction without a producer": (Batch(attributes=0x10).encode(), FORBIDDEN_TRANSACTION),
    "a transaction without an id": (
        Batch(attributes=0x10, producer_id=5, producer_epoch=0, base_sequence=0).encode(),
        FORBIDDEN_TRANSACTION,
    ),
    "a producer without a sequence": (Batch(producer_id=5, producer_epoch=0).encode(), INVALID_RECORD),
    "a timestamp far ahead": (Batch(base_timestamp=now_ms() + 2 * HOUR_MS).encode(), BAD_TIMESTAMP),
    "the last timestamp": (Batch(base_timestamp=2**63 - 1).encode(), BAD_TIMESTAMP),
    "more than max.message.bytes": (batch(b"x" * 1_048_600), TOO_LARGE),
}


@pytest.mark.parametrize("what", REFUSED)
def test_batch_is_refused_and_leaves_the_log_as_it_was(raw: Raw, what: str) -> None:
    data, code = REFUSED[what]
    topic = raw.create()
    raw.append(topic, b"before")
    answer = raw.produce(topic, data)
    assert (answer["error_code"], answer["base_offset"]) == (code, -1), what
    assert raw.list_offset(topic, LATEST)["offset"] == 1
    assert raw.append(topic, b"after") == 1


def test_batch_with_an_unusable_codec_is_refused(raw: Raw) -> None:
    topic = raw.create()
    for codec in (5, 6, 7):
        answer = raw.produce(topic, Batch(attributes=codec).encode())
        assert answer["error_code"] in (UNKNOWN_SERVER_ERROR, UNSUPPORTED_CODEC, INVALID_RECORD, CORRUPT)
    assert raw.list_offset(topic, LATEST)["offset"] == 0


def test_null_records_get_an_error_or_a_closed_connection(raw: Raw, target: str) -> None:
    if target == "kafka":
        pytest.skip("Apache Kafka 4.3 never answers null records")
    topic = raw.create()
    try:
        assert raw.produce(topic, None)["error_code"] == INVALID_RECORD
    except Closed:
        raw.reconnect()
    assert raw.append(topic, b"after") == 0


ACCEPTED: dict[str, bytes] = {
    "a leader epoch": Batch(leader_epoch=7).encode(),
    "a sequence without a producer": Batch(base_sequence=3).encode(),
    "an epoch without a producer": Batch(producer_epoch=3).encode(),
    "a timestamp of -1": Batch(base_timestamp=-1).encode(),
    "a timestamp within the hour": Batch(base_timestamp=now_ms() + HOUR_MS // 2).encode(),
}


@pytest.mark.parametrize("what", ACCEPTED)
def test_odd_batch_is_taken(raw: Raw, what: str) -> None:
    topic = raw.create()
    assert raw.produce(topic, ACCEPTED[what])["error_code"] == NONE
    [stored] = raw.batches(topic)
    assert (stored.base_offset, stored.leader_epoch) == (0, 0)


def test_batch_at_the_size_limit_is_taken_and_one_byte_more_is_not(raw: Raw) -> None:
    data = batch(b"a" * 30)
    topic = raw.create(configs={"max.message.bytes": str(len(data))})
    assert raw.produce(topic, data)["error_code"] == NONE
    assert raw.produce(topic, batch(b"a" * 31))["error_code"] == TOO_LARGE


def test_batch_larger_than_a_segment_is_refused(raw: Raw) -> None:
    topic = raw.create(configs={"segment.bytes": "1048576", "max.message.bytes": "3000000"})
    assert raw.produce(topic, batch(b"x" * 1_500_000))["error_code"] == LIST_TOO_LARGE


def test_old_timestamp_is_refused_where_the_topic_says_so(raw: Raw) -> None:
    topic = raw.create(configs={"message.timestamp.before.max.ms": "1000"})
    assert raw.produce(topic, batch(b"x", base_timestamp=1000))["error_code"] == BAD_TIMESTAMP
    assert raw.produce(topic, batch(b"x"))["error_code"] == NONE


def test_compacted_topic_needs_keys_and_names_the_records_without(raw: Raw) -> None:
    topic = raw.create(configs={"cleanup.policy": "compact"})
    payload = record(b"1", b"k") + record(b"2", None, 1) + record(b"3", b"k", 2)
    answer = raw.produce(topic, Batch(payload=payload, count=3).encode())
    assert answer["error_code"] == INVALID_RECORD
    assert [entry["batch_index"] for entry in answer["record_errors"]] == [1]
    assert raw.list_offset(topic, LATEST)["offset"] == 0
    assert raw.produce(topic, batch(b"v"))["error_code"] == NONE


def test_compacted_topic_refuses_records_that_cannot_be_read(raw: Raw) -> None:
    topic = raw.create(configs={"cleanup.policy": "compact"})
    for attributes in range(5):
        data = Batch(payload=b"\xff" * 40, count=1, attributes=attributes).encode()
        assert raw.produce(topic, data)["error_code"] in (CORRUPT, INVALID_RECORD, UNKNOWN_SERVER_ERROR), attributes
    assert raw.list_offset(topic, LATEST)["offset"] == 0
    assert raw.produce(topic, batch(b"v"))["error_code"] == NONE


def test_zstd_needs_produce_7(raw: Raw) -> None:
    zstandard = pytest.importorskip("zstandard")
    data = Batch(payload=zstandard.compress(records(b"a")), attributes=4).encode()
    topic = raw.create()
    answers = [raw.produce(topic, data, version)["error_code"] for version in (3, 6, 7)]
    assert answers == [UNSUPPORTED_CODEC, UNSUPPORTED_CODEC, NONE]


def test_log_append_time_replaces_the_timestamps_of_the_batch(raw: Raw) -> None:
    topic = raw.create(configs={"message.timestamp.type": "LogAppendTime"})
    answer = raw.produce(topic, batch(b"a", b"b", base_timestamp=5))
    [stored] = raw.batches(topic)
    assert stored.attributes & 0x08
    assert stored.max_timestamp == answer["log_append_time"]
    assert abs(stored.max_timestamp - now_ms()) < HOUR_MS


def test_answer_to_acks_0_is_silence_and_a_refusal_closes_the_connection(raw: Raw) -> None:
    topic = raw.create()

    def send(name: str, data: bytes) -> None:
        raw.send("produce", 9, produce_fields(name, data, acks=0))

    send(topic, batch(b"a"))
    assert raw.append(topic, b"b") == 1
    for name, data in ((topic, Batch(crc=1).encode()), (topic, Batch(magic=1).encode()), (raw.name("no"), batch(b"a"))):
        send(name, data)
        with pytest.raises(Closed):
            raw.receive_frame()
        raw.reconnect()
    assert raw.list_offset(topic, LATEST)["offset"] == 2


def produce_fields(name: str, data: bytes, acks: int) -> dict[str, object]:
    partitions = [{"index": 0, "records": data}]
    return {"acks": acks, "timeout": 1000, "topic_data": [{"name": name, "partition_data": partitions}]}


@pytest.mark.parametrize("acks", [-2, 2, 3, 32767])
def test_acks_beyond_all_are_refused(raw: Raw, acks: int) -> None:
    topic = raw.create()
    assert raw.produce(topic, batch(b"a"), acks=acks)["error_code"] == BAD_ACKS
    assert raw.list_offset(topic, LATEST)["offset"] == 0


def test_partition_named_twice_is_appended_as_often_as_it_is_answered(raw: Raw) -> None:
    """Apache Kafka keeps the last of the two; whoever keeps both must say so."""
    topic = raw.create()
    parts = [{"index": 0, "records": batch(b"1")}, {"index": 0, "records": batch(b"2")}]
    answer = raw.ask("produce", 9, acks=-1, timeout=1000, topic_data=[{"name": topic, "partition_data": parts}])
    answers = answer["responses"][0]["partition_responses"]
    assert [(part["index"], part["error_code"], part["base_offset"]) for part in answers] == [
        (0, NONE, offset) for offset in range(raw.list_offset(topic, LATEST)["offset"])
    ]
    assert answers


def test_attributes_no_producer_may_set_never_reach_the_log(raw: Raw) -> None:
    """Apache Kafka lets some of them in; a node may refuse them all."""
    topic = raw.create()
    for attributes in (0x08, 0x40, 0x80, -0x8000):
        answer = raw.produce(topic, Batch(attributes=attributes).encode())
        assert answer["error_code"] in (NONE, BAD_TIMESTAMP, INVALID_RECORD)
    assert raw.produce(topic, batch(b"v"))["error_code"] == NONE


def test_record_that_lies_about_its_length_never_breaks_the_partition(raw: Raw) -> None:
    """Apache Kafka looks inside and refuses; a node that does not must still serve what is around it."""
    topic = raw.create()
    raw.append(topic, b"before")
    for payload in (zigzag(0), zigzag(-1), zigzag(1000) + bytes(10), struct.pack(">Q", 2**64 - 1) * 3):
        assert raw.produce(topic, Batch(payload=payload).encode())["error_code"] in (
            NONE,
            UNKNOWN_SERVER_ERROR,
            INVALID_RECORD,
        )
    after = raw.append(topic, b"after")
    assert raw.batches(topic)[0].base_offset == 0
    assert raw.batches(topic, after)[-1].last_offset == after
