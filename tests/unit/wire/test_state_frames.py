"""The frames around log records: the metadata log's and the coordinators'."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.base.types import Uuid
from ottla.wire.messages.fetch import FetchRequest
from ottla.wire.primitives import Malformed, Message
from ottla.wire.state import consumer_offsets, share_group_state, share_groups, streams_groups, transaction_state
from ottla.wire.state.cluster_metadata import (
    RECORDS,
    BrokerRegistrationChangeRecord,
    FeatureLevelRecord,
    NoOpRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
)
from ottla.wire.state.consumer_offsets import KEYS, VALUES, OffsetCommitKey, OffsetCommitValue
from ottla.wire.state.coordinator_frame import decode_key, decode_value, encode_key, encode_value
from ottla.wire.state.metadata_frame import decode_metadata_record, encode_metadata_record, written_version
from tests.unit.wire.message_values import record_values, schema_records

metadata_records = st.one_of(
    [
        st.tuples(record_values(message, cls, version), st.just(version))
        for message, cls, version in schema_records()
        if cls in RECORDS.values()
    ]
)


@settings(max_examples=300)
@given(metadata_records)
def test_a_metadata_record_survives_its_frame(record_and_version: tuple[Message, int]) -> None:
    record, version = record_and_version
    assert decode_metadata_record(encode_metadata_record(record, version)) == record


def test_a_metadata_record_begins_with_frame_version_key_and_version() -> None:
    assert encode_metadata_record(FeatureLevelRecord("kraft.version", 1)).hex() == (
        "01 0c 00 0e 6b726166742e76657273696f6e 0001 00".replace(" ", "")
    )
    assert encode_metadata_record(NoOpRecord()).hex() == "01140000"


def test_a_record_is_written_in_the_oldest_version_that_loses_nothing() -> None:
    """Kafka 4.0 does not read the versions that KIP-1066 added."""
    assert written_version(RegisterBrokerRecord()) == 3
    assert written_version(RegisterBrokerRecord(cordoned_log_dirs=[])) == 4
    assert written_version(BrokerRegistrationChangeRecord()) == 2
    assert written_version(BrokerRegistrationChangeRecord(cordoned_log_dirs=[Uuid(bytes(16))])) == 3
    assert written_version(PartitionRecord()) == 2


@pytest.mark.parametrize(
    "value, complaint",
    [
        ("", "no whole frame"),
        ("01", "no whole frame"),
        ("020c00", "frame version 2"),
        ("010d00", "unknown key 13"),
        ("010c0900", "no version 9"),
        ("0114000099", "1 bytes behind"),
        ("010c00", "FeatureLevelRecord v0"),
        ("ffffffffffff01", "five bytes"),
    ],
)
def test_a_broken_metadata_record_is_malformed(value: str, complaint: str) -> None:
    with pytest.raises(Malformed, match=complaint):
        decode_metadata_record(bytes.fromhex(value))


@given(st.binary(max_size=50))
def test_noise_is_malformed_or_a_metadata_record(noise: bytes) -> None:
    try:
        record = decode_metadata_record(noise)
    except Malformed:
        return
    assert type(record) in RECORDS.values()


@pytest.mark.parametrize("message", [FetchRequest(), OffsetCommitKey()])
def test_only_metadata_records_go_into_the_metadata_log(message: Message) -> None:
    with pytest.raises(TypeError, match="no record of the metadata log"):
        encode_metadata_record(message)


def test_the_metadata_log_has_every_record_kafka_has() -> None:
    assert set(RECORDS) == {*range(6), *range(7, 13), 14, 15, *range(17, 30)}
    assert RECORDS[2] is TopicRecord


def coordinator_modules() -> list[Any]:
    return [consumer_offsets, share_groups, streams_groups, share_group_state, transaction_state]


@pytest.mark.parametrize("module", coordinator_modules(), ids=lambda m: Path(m.__file__).stem)
def test_every_key_has_a_value_of_its_name(module: Any) -> None:
    names = {key: cls.__name__.removesuffix("Key") for key, cls in module.KEYS.items()}
    assert names == {key: cls.__name__.removesuffix("Value") for key, cls in module.VALUES.items()}
    for key, cls in module.KEYS.items():
        assert decode_key(encode_key(cls()), module.KEYS) == cls()
        assert module.VALUES[key].API_KEY == cls.API_KEY == key


def test_an_offset_commit_has_kafkas_bytes() -> None:
    key = OffsetCommitKey("g", "orders", 3)
    assert encode_key(key) == b"\x00\x01" + b"\x00\x01g" + b"\x00\x06orders" + b"\x00\x00\x00\x03"
    value = OffsetCommitValue(offset=5, leader_epoch=2, metadata="m", commit_timestamp=9)
    encoded = encode_value(value, 3)
    assert encoded.hex() == "0003" + "0000000000000005" + "00000002" + "00016d" + "0000000000000009"
    assert decode_value(encoded, OffsetCommitValue) == value


def test_a_key_from_a_later_kafka_is_passed_over() -> None:
    assert decode_key(b"\x7f\x00abc", KEYS) is None


@pytest.mark.parametrize(
    "data", [b"", b"\x00", b"\x00\x03", b"\x00\x09" + bytes(40), encode_value(OffsetCommitValue(), 3) + b"x"]
)
def test_a_broken_value_is_malformed(data: bytes) -> None:
    with pytest.raises(Malformed):
        decode_value(data, VALUES[1])


@pytest.mark.parametrize("data", [b"", b"\x00", b"\x00\x01\x00\x05", encode_key(OffsetCommitKey()) + b"x"])
def test_a_broken_key_is_malformed(data: bytes) -> None:
    with pytest.raises(Malformed):
        decode_key(data, KEYS)
