"""Requests and responses that Kafka does not have: no oracle but their own two halves, and bytes written by hand."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.wire.messages.commit_group import (
    CommitGroupMember,
    CommitGroupOffsets,
    CommitGroupPartition,
    CommitGroupRequest,
    CommitGroupTopic,
)
from ottla.wire.messages.index import ApiKey
from ottla.wire.primitives import Message
from tests.unit.wire.message_values import our_bytes, own_api_messages, record_values

KAFKAS_KEYS_MAX = 10_000
MESSAGES = own_api_messages()


@settings(max_examples=25)
@given(data=st.data())
@pytest.mark.parametrize("message, cls, version", MESSAGES, ids=lambda value: getattr(value, "__name__", None))
def test_what_is_written_is_read(message: Any, cls: type[Message], version: int, data: Any) -> None:
    written = data.draw(record_values(message, cls, version))
    encoded = our_bytes(written, version)
    assert cls.decode(memoryview(encoded), 0, version) == (written, len(encoded))


def test_a_group_commit_has_these_bytes() -> None:
    member = CommitGroupMember("m", 258, 3)
    topics = [CommitGroupTopic("t", [CommitGroupPartition(1, 9)])]
    request = CommitGroupRequest("s", "q", 7, b"d", [member], [CommitGroupOffsets("g", topics)])
    assert our_bytes(request, 0).hex(" ") == (
        "02 73 02 71 00 00 00 00 00 00 00 07 02 64 "
        "02 02 6d 00 00 00 00 00 00 01 02 00 03 00 "
        "02 02 67 02 02 74 02 00 00 00 01 00 00 00 00 00 00 00 09 00 00 00 00"
    )


def test_our_keys_are_far_from_kafkas() -> None:
    assert {key.name for key in ApiKey if key > KAFKAS_KEYS_MAX} == {"COMMIT_GROUP", "DESCRIBE_GROUP_COMMIT"}
