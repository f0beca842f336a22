"""Bytes of `__transaction_state`."""

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.core.transactions.codec import decode, encode
from ottla.core.transactions.records import (
    DecisionRecord,
    GroupDecision,
    GroupOffset,
    Member,
    Pin,
    PinRecord,
    Status,
    Transaction,
    TransactionRecord,
)
from ottla.wire.malformed import Malformed

names = st.text(st.characters(codec="utf-8"), max_size=20)
int16, int32, int64 = st.integers(0, 2**15 - 1), st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1)
partitions = st.frozensets(st.tuples(names, int32), max_size=5)
transactions = st.builds(
    Transaction,
    producer_id=int64,
    epoch=int16,
    timeout_ms=int32,
    status=st.sampled_from([status for status in Status if status is not Status.EMPTY]),
    partitions=partitions,
    updated_ms=int64,
    started_ms=int64,
    previous_producer_id=int64,
    next_producer_id=int64,
    next_epoch=int16,
    client_version=st.integers(0, 2),
    last_epoch=st.just(-1),
)
pins = st.builds(Pin, names, names, int64, int64, int64, int16)
decisions = st.builds(
    GroupDecision,
    int64,
    st.binary(max_size=64),
    int64,
    st.tuples(st.builds(Member, names, int64, int16)),
    st.tuples(st.builds(GroupOffset, names, names, int32, int64)),
)
records = st.one_of(
    st.builds(TransactionRecord, names, st.none() | transactions, st.just(1)),
    st.builds(DecisionRecord, names, names, st.none() | decisions),
    st.builds(PinRecord, names, st.none() | pins),
)


@settings(max_examples=150)
@given(records)
def test_every_record_comes_back_as_it_was(record: object) -> None:
    assert decode(*encode(record)) == record


@settings(max_examples=100)
@given(records, st.data())
def test_a_record_that_is_cut_off_is_malformed_and_nothing_else(record: object, data: st.DataObject) -> None:
    key, value = encode(record)
    if value is not None:
        cut = data.draw(st.integers(0, len(value) - 1))
        with pytest.raises(Malformed):
            decode(key, value[:cut])
    with pytest.raises(Malformed):
        decode(key[:1], value)


@settings(max_examples=200)
@given(st.binary(max_size=60), st.none() | st.binary(max_size=60), st.sampled_from([b"", b"\x00\x00", b"N!", b'N"']))
def test_arbitrary_bytes_are_malformed_or_passed_over(key: bytes, value: bytes | None, prefix: bytes) -> None:
    with suppress(Malformed):
        decode(prefix + key, value)


def test_the_bytes_are_those_of_kafka() -> None:
    transaction = Transaction(
        producer_id=5,
        epoch=1,
        timeout_ms=60_000,
        status=Status.ONGOING,
        partitions=frozenset({("t", 2), ("t", 1)}),
        updated_ms=1_700_000_000_000,
        started_ms=1_700_000_000_000,
    )
    key, value = encode(TransactionRecord("id", transaction, version=0))
    assert key.hex() == "0000" + "0002" + b"id".hex()
    moment = f"{1_700_000_000_000:016x}"
    fields = ["0000", "0000000000000005", "0001", "0000ea60", "01", "00000001", "000174", "00000002", "00000001"]
    assert value is not None
    assert value.hex() == "".join([*fields, "00000002", moment, moment])


def test_an_empty_transaction_has_no_list_of_partitions() -> None:
    _, value = encode(TransactionRecord("id", Transaction(5, 0, 60_000), version=0))
    assert value is not None
    assert value[17:21].hex() == "ffffffff"


def test_records_of_later_versions_are_passed_over() -> None:
    assert decode(b"\x00\x63whatever", b"\x00\x00") is None


def test_a_transaction_in_an_unknown_state_is_malformed() -> None:
    key, value = encode(TransactionRecord("id", Transaction(5, 0, 60_000), version=0))
    assert value is not None
    with pytest.raises(Malformed):
        decode(key, value[:16] + b"\x63" + value[17:])
