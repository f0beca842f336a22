import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.core.groups import records as r
from ottla.core.groups.asks import Client, Protocol
from ottla.core.groups.codec import decode, encode
from ottla.wire.malformed import Malformed

T = bytes(range(16))
text = st.text(max_size=12)
maybe = st.none() | text
int32, int64 = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
blob = st.binary(max_size=20)
uuid = st.binary(min_size=16, max_size=16)
partitions = st.frozensets(st.tuples(uuid, st.integers(0, 100)), max_size=6)
clients = st.builds(Client, text, text)
protocols = st.builds(Protocol, text, blob)


def committed() -> st.SearchStrategy[r.CommittedOffset]:
    plain = st.builds(r.CommittedOffset, int64, int32, text, int64, st.just(-1), st.just(bytes(16)) | uuid)
    expiring = st.builds(
        r.CommittedOffset, int64, st.just(-1), text, int64, st.integers(0, 2**63 - 1), st.just(bytes(16))
    )
    return plain | expiring


members = st.builds(r.GenerationMember, text, maybe, clients, st.integers(0, 2**31 - 1), int32, blob, blob)
generations = st.builds(r.Generation, text, int32, maybe, maybe, int64, st.lists(members, max_size=3).map(tuple))
patterns = st.none() | st.text(min_size=1, max_size=12)
names = st.lists(text, max_size=3).map(tuple)
classics = st.builds(r.ClassicMembership, int32, st.lists(protocols, min_size=1, max_size=2).map(tuple))
subscriptions = st.builds(
    r.Subscription,
    maybe,
    maybe,
    clients,
    names,
    patterns,
    int32,
    maybe,
    st.none() | classics,
)
everything = st.one_of(
    st.builds(r.OffsetRecord, text, text, int32, st.none() | committed(), st.just(-1)),
    st.builds(r.GroupRecord, text, st.none() | generations),
    st.builds(r.EpochRecord, text, st.none() | st.builds(r.Epoch, int32, int64)),
    st.builds(r.MemberRecord, text, text, st.none() | subscriptions),
    st.builds(r.TargetEpochRecord, text, st.none() | st.builds(r.TargetEpoch, int32, int64)),
    st.builds(r.TargetRecord, text, text, st.none() | partitions),
    st.builds(
        r.CurrentRecord,
        text,
        text,
        st.none() | st.builds(r.Current, int32, int32, st.integers(0, 2), partitions, partitions),
    ),
    st.builds(
        r.PatternRecord,
        text,
        text,
        st.none() | st.builds(r.ResolvedPattern, st.lists(text, max_size=3).map(tuple), int64, int64),
    ),
)


@given(record=everything)
@settings(max_examples=120, deadline=None)
def test_a_record_comes_back_as_it_was_written(record: r.Record) -> None:
    assert decode(*encode(record)) == record


@given(key=st.binary(max_size=40), value=st.binary(max_size=60))
@settings(max_examples=120, deadline=None)
def test_bytes_that_are_no_record_are_malformed_or_passed_over(key: bytes, value: bytes) -> None:
    try:
        record = decode(key, value)
    except Malformed:
        return
    assert record is None or encode(record)[0] == key or key[:2] == b"\x00\x00"


def test_an_offset_has_kafkas_bytes() -> None:
    committed = r.CommittedOffset(offset=258, leader_epoch=7, metadata="m", commit_timestamp_ms=3)
    key, value = encode(r.OffsetRecord("g", "t", 2, committed))
    assert key.hex() == "0001" + "000167" + "000174" + "00000002"
    assert value is not None
    assert value.hex() == "0003" + "0000000000000102" + "00000007" + "00016d" + "0000000000000003"
    _, expiring = encode(r.OffsetRecord("g", "t", 2, committed._replace(leader_epoch=-1, expire_timestamp_ms=9)))
    assert expiring is not None
    assert expiring.hex() == "0001" + "0000000000000102" + "00016d" + "0000000000000003" + "0000000000000009"
    _, known = encode(r.OffsetRecord("g", "t", 2, committed._replace(topic_id=T)))
    assert known is not None
    flexible = "0004" + "0000000000000102" + "00000007" + "026d" + "0000000000000003" + "01" + "00" + "10"
    assert known.hex() == flexible + T.hex()


def test_a_generation_has_kafkas_bytes() -> None:
    member = r.GenerationMember("m", None, Client("c", "h"), 5, 6, b"S", b"A")
    key, value = encode(r.GroupRecord("g", r.Generation("consumer", 4, "range", "m", 9, (member,))))
    assert key.hex() == "0002" + "000167"
    head = b"\x00\x03" + b"\x00\x08consumer" + b"\0\0\0\x04" + b"\x00\x05range" + b"\x00\x01m" + b"\0" * 7 + b"\x09"
    body = b"\0\0\0\x01" + b"\x00\x01m" + b"\xff\xff" + b"\x00\x01c" + b"\x00\x01h" + b"\0\0\0\x05" + b"\0\0\0\x06"
    assert value == head + body + b"\0\0\0\x01S" + b"\0\0\0\x01A"


@pytest.mark.parametrize(
    ("record", "key", "value"),
    [
        (r.EpochRecord("g", r.Epoch(5)), "0003" + "000167", "0000" + "00000005" + "00"),
        (r.TargetEpochRecord("g", r.TargetEpoch(5)), "0006" + "000167", "0000" + "00000005" + "00"),
        (
            r.TargetRecord("g", "m", frozenset(((T, 1), (T, 0)))),
            "0007" + "000167" + "00016d",
            "0000" + "02" + T.hex() + "03" + "00000000" + "00000001" + "00" + "00",
        ),
        (
            r.CurrentRecord("g", "m", r.Current(5, 4, 1, frozenset(), frozenset(((T, 1),)))),
            "0008" + "000167" + "00016d",
            "0000" + "00000005" + "00000004" + "01" + "01" + "02" + T.hex() + "02" + "00000001" + "00" + "00",
        ),
        (
            r.MemberRecord("g", "m", r.Subscription("i", None, Client("c", "h"), ("t",), None, 7, None)),
            "0005" + "000167" + "00016d",
            "0000" + "0269" + "00" + "0263" + "0268" + "02" + "0274" + "01" + "00000007" + "00" + "01000100",
        ),
        (
            r.PatternRecord("g", "t*", r.ResolvedPattern(("t",), 1, 2)),
            "0010" + "000167" + "0002742a",
            "0000" + "02" + "0274" + "0000000000000001" + "0000000000000002" + "00",
        ),
    ],
)
def test_records_of_consumer_groups_have_kafkas_bytes(record: r.Record, key: str, value: str) -> None:
    written_key, written = encode(record)
    assert written_key.hex() == key
    assert written is not None
    assert written.hex() == value


def test_records_of_other_kinds_of_groups_are_passed_over() -> None:
    assert decode(b"\x00\x0b\x00\x01g", b"\x00\x00") is None
    assert decode(b"\x00\x04\x00\x01g", b"\x00\x00") is None


def test_a_key_that_is_cut_off_is_malformed() -> None:
    with pytest.raises(Malformed):
        decode(b"\x00\x01\x00\x05g", None)
