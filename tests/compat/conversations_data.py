"""Conversations about records: produce, fetch, offsets, epochs, deleting, producer ids."""

from __future__ import annotations

from typing import Any

from .batches import Batch, batch
from .conversations import STRANGER, Talk
from .raw import FOREVER, LATEST
from .wire import Fields, versions

OLD_MS = 1_700_000_000_000
FIVE = [b"x" * 100] * 5


def ranged(api: str, last: int) -> range:
    return range(versions(api).start, last + 1)


def partition(index: int, records: bytes | None) -> Fields:
    return {"index": index, "records": records}


def produced(*topics: Fields, acks: int = -1) -> Fields:
    return {"acks": acks, "timeout": 10_000, "topic_data": list(topics)}


def say_produce_versions(talk: Talk) -> None:
    topic = talk.raw.create()
    topic_id = talk.raw.topic_id(topic)
    for version in ranged("produce", 13):
        data = {"name": topic, "topic_id": topic_id, "partition_data": [partition(0, batch(b"v", b"w"))]}
        talk("one batch", "produce", version, **produced(data))
        data = {"name": talk.raw.name("no"), "topic_id": STRANGER, "partition_data": [partition(0, batch(b"v"))]}
        talk("unknown topic", "produce", version, **produced(data))
        data = {"name": topic, "topic_id": topic_id, "partition_data": [partition(7, batch(b"v"))]}
        talk("unknown partition", "produce", version, **produced(data))
        data = {"name": topic, "topic_id": topic_id, "partition_data": [partition(0, Batch(crc=1).encode())]}
        talk("wrong crc", "produce", version, **produced(data))
        talk("acks 2", "produce", version, **produced(data, acks=2))
        talk("no topics", "produce", version, **produced())
    talk("read back", "fetch", 12, **talk.raw.fetch_request(topic, 0))


def say_produce_several(talk: Talk) -> None:
    topic, other = talk.raw.create("a", 3, FOREVER), talk.raw.create("b")
    parts = [partition(at, batch(b"v", base_timestamp=OLD_MS + at)) for at in (2, 0, 1, 9)]
    both = {"name": topic, "partition_data": parts}, {"name": other, "partition_data": [partition(0, batch(b"w"))]}
    talk("four partitions of two topics", "produce", 9, **produced(*both))
    for index in range(3):
        talk(f"partition {index}", "fetch", 12, **talk.raw.fetch_request(topic, 0, index))


def say_produce_timestamps(talk: Talk) -> None:
    stamped = talk.raw.create("stamped", configs={"message.timestamp.type": "LogAppendTime"})
    for version in (3, 8, 11):
        data = {"name": stamped, "partition_data": [partition(0, batch(b"v", b"w", base_timestamp=5))]}
        talk("log append time", "produce", version, **produced(data))
    talk("read back", "fetch", 12, **talk.raw.fetch_request(stamped, 0))


def say_fetch_versions(talk: Talk) -> None:
    topic = talk.raw.create("", 2, FOREVER)
    topic_id = talk.raw.topic_id(topic)
    for at in range(4):
        talk.raw.append(topic, *FIVE, base_timestamp=OLD_MS + at * 1000)
    for version in ranged("fetch", 18):
        for step, offset in (("first", 0), ("inside a batch", 7), ("end", 20), ("past the end", 21), ("negative", -1)):
            talk(step, "fetch", version, **talk.raw.fetch_request(topic, offset, topic_id=topic_id))
        talk("unknown partition", "fetch", version, **talk.raw.fetch_request(topic, 0, 9, topic_id=topic_id))
        stranger = talk.raw.fetch_request(talk.raw.name("no"), 0, topic_id=STRANGER)
        talk("unknown topic", "fetch", version, **stranger)
        for isolation in (0, 1):
            ask = talk.raw.fetch_request(topic, 15, topic_id=topic_id, isolation_level=isolation)
            talk(f"isolation {isolation}", "fetch", version, **ask)
        if version >= 9:
            ask = talk.raw.fetch_request(topic, 15, topic_id=topic_id, current_leader_epoch=5)
            talk("future leader epoch", "fetch", version, **ask)
        talk("no topics", "fetch", version, **{**ask, "topics": []})


def say_fetch_sessions(talk: Talk) -> None:
    """The ids of the sessions are the node's own business, also whether it gives any out."""
    topic = talk.raw.create("", 1, FOREVER)
    topic_id = talk.raw.topic_id(topic)
    talk.raw.append(topic, *FIVE, base_timestamp=OLD_MS)
    for version in (7, 11, 12, 13, 17):
        for step, session, epoch in (
            ("anew", 0, 0),
            ("anew, after another", 123_456, 0),
            ("the last of an unknown one", 123_456, -1),
            ("the next of an unknown one", 123_456, 1),
            ("the next of none", 0, 5),
        ):
            asked = talk.raw.fetch_request(topic, 0, topic_id=topic_id, session_id=session, session_epoch=epoch)
            talk(step, "fetch", version, **asked)


def say_list_offsets(talk: Talk) -> None:
    topic = talk.raw.create("", 2, FOREVER)
    for at in range(5):
        talk.raw.append(topic, b"a", b"b", base_timestamp=OLD_MS + at * 1000)
    times = [-1, -2, -3, -4, -5, -6, -7, -(2**63), 0, *(OLD_MS + d for d in (0, 1, 1000, 4000, 4001)), 2**63 - 1]
    for version in ranged("list_offsets", 11):
        for timestamp in times if version in (1, 4, 11) else (-1, -2, -3, -4, -5, -6, OLD_MS + 1):
            talk(f"at {timestamp}", "list_offsets", version, **listed(topic, timestamp))
        for timestamp in (-1, -2, -3, 0):
            talk(f"empty partition at {timestamp}", "list_offsets", version, **listed(topic, timestamp, 1))
        talk("unknown partition", "list_offsets", version, **listed(topic, -1, 9))
        talk("unknown topic", "list_offsets", version, **listed(talk.raw.name("no"), -1))
        if version >= 2:
            talk("committed", "list_offsets", version, **listed(topic, -1), isolation_level=1)
        if version >= 4:
            talk("future leader epoch", "list_offsets", version, **listed(topic, -1, epoch=5))
            talk("present leader epoch", "list_offsets", version, **listed(topic, -1, epoch=0))


def listed(topic: str, timestamp: int, index: int = 0, epoch: int = -1) -> dict[str, Any]:
    wanted = {"partition_index": index, "timestamp": timestamp, "current_leader_epoch": epoch}
    return {"replica_id": -1, "topics": [{"name": topic, "partitions": [wanted]}]}


def say_offset_for_leader_epoch(talk: Talk) -> None:
    topic = talk.raw.create("", 1, FOREVER)
    talk.raw.append(topic, *FIVE)
    cases = (("present", 0, -1, 0), ("future", 5, -1, 0), ("none", -1, -1, 0), ("known leader", 0, 0, 0))
    for version in ranged("offset_for_leader_epoch", 4):
        for step, epoch, current, index in (*cases, ("unknown leader", 0, 5, 0), ("unknown partition", 0, -1, 9)):
            wanted = {"partition": index, "leader_epoch": epoch, "current_leader_epoch": current}
            asked = {"replica_id": -1, "topics": [{"topic": topic, "partitions": [wanted]}]}
            talk(step, "offset_for_leader_epoch", version, **asked)
        asked["topics"] = [{"topic": talk.raw.name("no"), "partitions": [wanted]}]
        talk("unknown topic", "offset_for_leader_epoch", version, **asked)


def say_delete_records(talk: Talk) -> None:
    for version in ranged("delete_records", 2):
        topic = talk.raw.create(f"v{version}")
        for _ in range(5):
            talk.raw.append(topic, b"a", b"b")
        for offset in (3, 2, 0, -2, 11, 4, -1, 10):
            talk(f"before {offset}", "delete_records", version, **deleted(topic, offset))
            first = talk(f"first after {offset}, v{version}", "list_offsets", 7, **listed(topic, -2))
            talk(f"read after {offset}, v{version}", "fetch", 12, **talk.raw.fetch_request(topic, first_offset(first)))
        talk(f"read what is gone, v{version}", "fetch", 12, **talk.raw.fetch_request(topic, 2))
        talk("unknown partition", "delete_records", version, **deleted(topic, 0, 9))
        talk("unknown topic", "delete_records", version, **deleted(talk.raw.name("no"), 0))
        talk.raw.append(topic, b"c")
        talk(f"goes on at the end, v{version}", "list_offsets", 7, **listed(topic, LATEST))


def first_offset(answer: Fields) -> int:
    return int(answer["topics"][0]["partitions"][0]["offset"])


def deleted(topic: str, offset: int, index: int = 0) -> dict[str, Any]:
    wanted = {"partition_index": index, "offset": offset}
    return {"timeout": 5000, "topics": [{"name": topic, "partitions": [wanted]}]}


def say_init_producer_id(talk: Talk) -> None:
    talk.raw.new_producer_id()
    fresh = {"transaction_timeout": 60_000, "producer_id": -1, "producer_epoch": -1}
    for version in ranged("init_producer_id", 5):
        talk("fresh", "init_producer_id", version, **fresh)
        talk("timeout 0", "init_producer_id", version, **{**fresh, "transaction_timeout": 0})
        talk("empty transactional id", "init_producer_id", version, **fresh, transactional_id="")
        talk("id without epoch", "init_producer_id", version, **{**fresh, "producer_id": 5})
        talk("epoch without id", "init_producer_id", version, **{**fresh, "producer_epoch": 3})


def say_describe_producers(talk: Talk) -> None:
    topic = talk.raw.create(partitions=2)
    producer = talk.raw.new_producer_id()
    changes = {"producer_id": producer, "producer_epoch": 0}
    talk.raw.append(topic, b"a", b"b", base_sequence=0, **changes)
    talk.raw.append(topic, b"c", base_sequence=2, **changes)
    talk.raw.append(topic, b"no producer")
    asked = [{"name": topic, "partition_indexes": [0, 1, 9]}, {"name": talk.raw.name("no"), "partition_indexes": [0]}]
    talk("two partitions and two unknown ones", "describe_producers", 0, topics=asked)
    talk("none", "describe_producers", 0, topics=[])
