"""The runtime under the generated codecs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    LeaderIdAndEpoch,
    PartitionData,
)
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.wire.primitives import Buffer, Malformed, read_uvarint, skip_tags, write_uvarint
from ottla.wire.state.cluster_metadata import FenceBrokerRecord, UnfenceBrokerRecord


class Slices:
    def __init__(self, size: int) -> None:
        self.size = size


@given(st.integers(0, 2**32 - 1), st.binary(max_size=3))
def test_a_varint_survives_writing_and_reading(value: int, before: bytes) -> None:
    out = bytearray(before)
    write_uvarint(out, value)
    assert read_uvarint(memoryview(out), len(before)) == (value, len(out))


@pytest.mark.parametrize(
    "value, encoded", [(0, "00"), (127, "7f"), (128, "8001"), (300, "ac02"), (2**32 - 1, "ffffffff0f")]
)
def test_varints_are_kafkas(value: int, encoded: str) -> None:
    out = bytearray()
    write_uvarint(out, value)
    assert out.hex() == encoded


def test_a_varint_of_six_bytes_is_malformed() -> None:
    with pytest.raises(Malformed, match="five bytes"):
        read_uvarint(memoryview(b"\x80\x80\x80\x80\x80\x01"), 0)


def test_unknown_tags_are_stepped_over_by_their_sizes() -> None:
    tags = b"\x05\x02ab" + b"\x80\x01\x00"
    assert skip_tags(memoryview(tags), 0, 2) == len(tags)


def test_a_message_carries_unknown_tags_past_a_reader_that_does_not_know_them() -> None:
    out = Buffer()
    MetadataRequest(topics=[]).encode(out, 12)
    assert out[-1] == 0
    with_tag = out[:-1] + b"\x01\x63\x03abc"
    message, end = MetadataRequest.decode(memoryview(with_tag), 0, 12)
    assert (message, end) == (MetadataRequest(topics=[]), len(with_tag))


def test_a_known_tag_of_another_size_than_it_says_is_malformed() -> None:
    out = Buffer()
    FetchRequest(cluster_id="abc").encode(out, 12)
    tag = out.index(b"\x01\x00\x04\x04abc")
    out[tag + 2] = 5
    with pytest.raises(Malformed, match="another size"):
        FetchRequest.decode(memoryview(out + b"\x00"), 0, 12)


def test_records_are_a_view_of_the_frame_and_not_a_copy() -> None:
    out = Buffer()
    topics = [TopicProduceData("orders", partition_data=[PartitionProduceData(0, b"batch bytes")])]
    ProduceRequest(acks=-1, topic_data=topics).encode(out, 9)
    request, _ = ProduceRequest.decode(memoryview(out), 0, 9)
    records = request.topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    out[out.index(b"batch")] = ord("B")
    assert bytes(records) == b"Batch bytes"


@pytest.mark.parametrize("version, prefix", [(11, b"\x00\x00\x01\x00"), (12, b"\x81\x02")])
def test_slices_leave_a_hole_of_their_size(version: int, prefix: bytes) -> None:
    """What follows the hole is written right behind its length; the socket fills the gap."""
    slices = Slices(256)
    plain, holed = Buffer(), Buffer()
    for out, records in ((plain, bytes(256)), (holed, slices)):
        partition = PartitionData(partition_index=3, records=records)
        topic = FetchableTopicResponse(topic="orders", partitions=[partition])
        FetchResponse(responses=[topic]).encode(out, version)
    [(position, hole)] = holed.holes
    assert hole is slices
    assert holed[position - len(prefix) : position] == prefix
    assert holed[:position] + bytes(256) + holed[position:] == plain


def test_a_field_that_a_version_lacks_keeps_its_default() -> None:
    out = Buffer()
    FetchRequest(topics=[FetchTopic(topic="orders")], rack_id="r1", session_id=7).encode(out, 4)
    request, _ = FetchRequest.decode(memoryview(out), 0, 4)
    assert request == FetchRequest(topics=[FetchTopic(topic="orders")])


def test_null_becomes_empty_where_a_version_has_no_null() -> None:
    out = Buffer()
    MetadataRequest(topics=None).encode(out, 0)
    assert MetadataRequest.decode(memoryview(out), 0, 0) == (MetadataRequest(topics=[]), 4)


def test_null_is_malformed_where_a_version_has_no_null() -> None:
    with pytest.raises(Malformed, match=r"MetadataRequest\.topics has length -1"):
        MetadataRequest.decode(memoryview(b"\xff\xff\xff\xff"), 0, 0)


def test_a_string_that_is_not_utf8_is_malformed() -> None:
    out = Buffer()
    MetadataRequest(topics=[MetadataRequestTopic(name="ab")]).encode(out, 1)
    out[out.index(b"ab")] = 0xFF
    with pytest.raises(Malformed, match="utf-8"):
        MetadataRequest.decode(memoryview(out), 0, 1)


def test_every_message_gets_lists_of_its_own() -> None:
    FetchRequest().topics.append(FetchTopic())
    assert FetchRequest().topics == []


def test_a_shared_default_refuses_to_be_changed_and_can_be_replaced() -> None:
    partition = PartitionData()
    with pytest.raises(AttributeError, match="shared default"):
        partition.current_leader.leader_id = 5
    partition.current_leader = LeaderIdAndEpoch(leader_id=5)
    assert PartitionData().current_leader == LeaderIdAndEpoch() != partition.current_leader
    assert repr(PartitionData().current_leader) == "LeaderIdAndEpoch(leader_id=-1, leader_epoch=-1)"


def test_messages_of_different_classes_are_never_equal() -> None:
    assert FenceBrokerRecord(1, 2) == FenceBrokerRecord(1, 2)
    assert FenceBrokerRecord(1, 2) != UnfenceBrokerRecord(1, 2)
    assert FenceBrokerRecord(1, 2) != (1, 2)
