"""Requests that Kafka does not have, with bytes changed anywhere."""

from __future__ import annotations

import random

import pytest

from ottla.wire.frame import RequestHeader, encode_request_header
from ottla.wire.messages.commit_group import (
    CommitGroupMember,
    CommitGroupOffsets,
    CommitGroupPartition,
    CommitGroupRequest,
    CommitGroupTopic,
)
from ottla.wire.messages.describe_group_commit import DescribeGroupCommitRequest
from ottla.wire.messages.index import ApiKey
from ottla.wire.primitives import Buffer, Message

from .siege import ANSWERED, ROUNDS, SILENT, Siege
from .test_fields import MUTANTS, mutate

OFFSETS = [CommitGroupOffsets("fuzz", [CommitGroupTopic("fuzz-no", [CommitGroupPartition(0, 9)])])]
MEMBERS = [CommitGroupMember("fuzz", 77_777, 3), CommitGroupMember("other", 77_778, 0)]
REQUESTS: dict[ApiKey, Message] = {
    ApiKey.COMMIT_GROUP: CommitGroupRequest("sink", "query", 7, b"digest", MEMBERS, OFFSETS),
    ApiKey.DESCRIBE_GROUP_COMMIT: DescribeGroupCommitRequest("sink", "query"),
}


def payload(key: ApiKey) -> bytes:
    out = Buffer()
    encode_request_header(out, RequestHeader(key, 0, 1, "fuzz"), flexible=True)
    REQUESTS[key].encode(out, 0)
    return bytes(out[4:])


@pytest.mark.parametrize("key", REQUESTS)
def test_no_change_of_bytes_hurts_the_node(siege: Siege, key: ApiKey) -> None:
    good = payload(key)
    assert siege.throw(good) == ANSWERED
    chance = random.Random(f"bytes of {key.name}")
    for number in range(MUTANTS * ROUNDS):
        mutant = mutate(chance, good)
        assert siege.throw(mutant) != SILENT, f"mutant {number} is never answered: {mutant.hex()}"
    siege.check()
