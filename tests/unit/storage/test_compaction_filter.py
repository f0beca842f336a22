"""What compaction leaves of a single batch, and how it follows transactions."""

from collections.abc import Iterable, Mapping, Sequence
from random import Random

import pytest

from ottla.storage.compaction_filter import BatchFilter, LastRecord, TransactionTrail
from ottla.storage.compaction_map import ENTRY_BYTES, SHORT_KEY_BYTES, OffsetMap, slot_of
from ottla.storage.txn_index import AbortedTransaction
from ottla.wire.batch import (
    NO_STAMP,
    Codec,
    ProducerStamp,
    Record,
    crc_ok,
    decode_records,
    encode_batch,
    read_header,
    with_log_append_time,
)
from ottla.wire.batch_header import seal_batch
from ottla.wire.control import EndTxnMarker, encode_end_txn_marker

NOW, DAY = 1_700_000_000_000, 86_400_000
Pairs = Sequence[tuple[str | None, str | None]]


def batch_at(offset: int, pairs: Pairs, codec: int = 0, producer: ProducerStamp = NO_STAMP) -> bytes:
    records = [
        Record(offset + i, NOW - 50 + i, k.encode() if k is not None else None, v.encode() if v is not None else None)
        for i, (k, v) in enumerate(pairs)
    ]
    return encode_batch(records, base_offset=offset, codec=codec, producer=producer, leader_epoch=3)


def marker_at(offset: int, producer_id: int, committed: bool, epoch: int = 0) -> bytes:
    batch = bytearray(encode_end_txn_marker(EndTxnMarker(producer_id, epoch, committed, 1), timestamp_ms=NOW))
    batch[:8] = offset.to_bytes(8, "big")
    return bytes(batch)


def map_of(*batches: bytes, start: int = 0, bytes_max: int = 10**6) -> OffsetMap:
    offsets = OffsetMap(bytes_max, start)
    for batch in batches:
        offsets.add(batch, read_header(batch))
    return offsets


def filter_with(
    offsets: OffsetMap,
    *,
    aborted: Iterable[AbortedTransaction] = (),
    last_records: Mapping[int, LastRecord] | None = None,
    upper_bound: int = -1,
    now_ms: int = NOW,
) -> BatchFilter:
    return BatchFilter(offsets, TransactionTrail(aborted), last_records or {}, upper_bound, now_ms, DAY)


def rewritten(batch_filter: BatchFilter, batch: bytes) -> bytes | None:
    kept = batch_filter.rewrite(batch, read_header(batch))
    if kept is not None:
        assert crc_ok(kept, 0, read_header(kept))
        assert len(kept) == read_header(kept).size
    return None if kept is None else bytes(kept)


def values(batch: bytes) -> list[tuple[int, bytes | None]]:
    return [(record.offset, record.value) for record in decode_records(batch)]


@pytest.mark.parametrize("codec", Codec)
def test_the_last_record_of_each_key_stays_with_its_offset(codec: Codec) -> None:
    batch = batch_at(100, [("a", "1"), ("b", "2"), ("a", "3"), ("c", "4"), ("c", "5")], codec)
    kept = rewritten(filter_with(map_of(batch)), batch)
    assert kept is not None
    before, after = read_header(batch), read_header(kept)
    assert decode_records(kept) == [decode_records(batch)[i] for i in (1, 2, 4)]
    assert after.record_count == 3
    assert (after.base_offset, after.last_offset) == (before.base_offset, before.last_offset) == (100, 104)
    assert (after.codec, after.leader_epoch) == (codec, 3)
    assert after.max_timestamp == NOW - 46


@pytest.mark.parametrize("codec", Codec)
def test_a_batch_that_loses_nothing_stays_the_same_bytes(codec: Codec) -> None:
    batch = batch_at(100, [("a", "1"), ("b", "2")], codec)
    assert filter_with(map_of(batch)).rewrite(batch, read_header(batch)) is batch


def test_a_batch_of_old_values_goes() -> None:
    old, new = batch_at(0, [("a", "1"), ("b", "1")]), batch_at(2, [("b", "2"), ("a", "2")])
    batch_filter = filter_with(map_of(old, new))
    assert rewritten(batch_filter, old) is None
    assert rewritten(batch_filter, new) == new


def test_a_batch_keeps_its_last_offset_when_its_last_record_goes() -> None:
    old, new = batch_at(0, [("a", "1"), ("b", "1")]), batch_at(2, [("b", "2")])
    kept = rewritten(filter_with(map_of(old, new)), old)
    assert kept is not None
    assert values(kept) == [(0, b"1")]
    assert read_header(kept).next_offset == 2
    assert read_header(kept).max_timestamp == NOW - 50


def test_log_append_time_outlives_the_record_that_it_was_last_written_with() -> None:
    old, new = batch_at(0, [("a", "1"), ("b", "1")]), batch_at(2, [("b", "2")])
    old = with_log_append_time(old, NOW + 7)
    kept = rewritten(filter_with(map_of(old, new)), old)
    assert kept is not None
    assert decode_records(kept) == decode_records(old)[:1]
    assert read_header(kept).max_timestamp == NOW + 7


def test_clean_records_stay_unless_the_dirty_part_has_their_key() -> None:
    clean, dirty = batch_at(0, [("a", "1"), ("b", "1")]), batch_at(2, [("b", "2")])
    kept = rewritten(filter_with(map_of(dirty, start=2)), clean)
    assert kept is not None
    assert values(kept) == [(0, b"1")]


def test_records_behind_the_map_stay_whatever_they_are() -> None:
    inside, behind = batch_at(0, [("a", "1")]), batch_at(1, [("a", "2"), (None, "x"), ("a", None)])
    batch_filter = filter_with(map_of(inside))
    assert batch_filter.rewrite(behind, read_header(behind)) is behind
    assert rewritten(batch_filter, inside) == inside
    assert batch_filter.stats.records_kept == 4


def test_records_without_a_key_go_and_are_counted() -> None:
    batch = batch_at(0, [(None, "x"), ("a", "1"), (None, "y")])
    offsets = map_of(batch)
    kept = rewritten(filter_with(offsets), batch)
    assert kept is not None
    assert values(kept) == [(1, b"1")]
    assert offsets.keyless_records == 2


# --- tombstones


@pytest.mark.parametrize("codec", Codec)
def test_a_tombstone_gets_a_horizon_stays_until_then_and_goes(codec: Codec) -> None:
    batch = batch_at(0, [("a", "1"), ("b", None), ("a", "2"), ("c", None)], codec)
    first = rewritten(filter_with(map_of(batch)), batch)
    assert first is not None
    header = read_header(first)
    assert header.delete_horizon_ms == NOW + DAY
    assert decode_records(first) == decode_records(batch)[1:]
    assert header.max_timestamp == NOW - 47

    later = filter_with(OffsetMap(10**6, 4), now_ms=NOW + DAY - 1)
    assert later.rewrite(first, header) is first

    last = rewritten(filter_with(OffsetMap(10**6, 4), now_ms=NOW + DAY), first)
    assert last is not None
    assert decode_records(last) == decode_records(batch)[2:3]
    assert read_header(last).delete_horizon_ms == NOW + DAY
    assert rewritten(filter_with(OffsetMap(10**6, 4), now_ms=NOW + 3 * DAY), last) == last


def test_a_horizon_does_not_change_timestamps_of_the_brokers_clock() -> None:
    batch = with_log_append_time(batch_at(0, [("a", None), ("b", "1")]), NOW + 7)
    kept = rewritten(filter_with(map_of(batch)), batch)
    assert kept is not None
    assert decode_records(kept) == decode_records(batch)
    assert read_header(kept).max_timestamp == NOW + 7


def test_a_batch_of_expired_tombstones_goes() -> None:
    batch = batch_at(0, [("a", None)])
    first = rewritten(filter_with(map_of(batch)), batch)
    assert first is not None
    assert rewritten(filter_with(OffsetMap(10**6, 1), now_ms=NOW + DAY), first) is None


def test_a_tombstone_that_a_later_value_replaced_goes_at_once() -> None:
    batch = batch_at(0, [("a", None), ("a", "1")])
    kept = rewritten(filter_with(map_of(batch)), batch)
    assert kept is not None
    assert values(kept) == [(1, b"1")]
    assert read_header(kept).delete_horizon_ms is None


# --- what must not be lost though its records are


def test_the_last_batch_of_a_live_producer_keeps_its_header() -> None:
    stamp = ProducerStamp(4000, 7, 20)
    old, new = batch_at(0, [("a", "1"), ("b", "1")], Codec.GZIP, stamp), batch_at(2, [("b", "2"), ("a", "2")])
    alive = {4000: LastRecord(last_data_offset=1, producer_epoch=7)}
    kept = rewritten(filter_with(map_of(old, new), last_records=alive), old)
    assert kept is not None
    header, before = read_header(kept), read_header(old)
    assert (header.size, header.record_count, header.base_timestamp, header.attributes) == (61, 0, -1, 0)
    assert header.max_timestamp == before.max_timestamp
    for name in ("base_offset", "last_offset", "producer_id", "producer_epoch", "base_sequence", "last_sequence"):
        assert getattr(header, name) == getattr(before, name)
    assert decode_records(kept) == []

    later = filter_with(OffsetMap(10**6, 4), last_records=alive)
    assert later.rewrite(kept, header) is kept
    assert rewritten(filter_with(OffsetMap(10**6, 4)), kept) is None
    moved_on = {4000: LastRecord(last_data_offset=9, producer_epoch=7)}
    assert rewritten(filter_with(OffsetMap(10**6, 4), last_records=moved_on), kept) is None


def test_the_batch_at_the_end_of_the_round_keeps_its_header() -> None:
    old, new = batch_at(0, [("a", "1")]), batch_at(1, [("a", "2")])
    kept = rewritten(filter_with(map_of(old, new), upper_bound=1), old)
    assert kept is not None
    assert read_header(kept).record_count == 0
    assert read_header(kept).next_offset == 1


def test_what_a_client_broke_stays_as_it_is_and_is_counted() -> None:
    good = batch_at(0, [("a", "1")])
    broken = seal_batch(read_header(good)._replace(attributes=Codec.ZSTD), b"not zstd")
    offsets = map_of(broken, batch_at(1, [("a", "2")]))
    batch_filter = filter_with(offsets)
    assert batch_filter.rewrite(broken, read_header(broken)) is broken
    assert batch_filter.stats.unreadable_batches == 1
    assert offsets.latest == {b"a": 1}


# --- transactions

PRODUCER = ProducerStamp(7, 0, 0, True)
DATA = batch_at(10, [("a", "1")], producer=PRODUCER)
ABORT, COMMIT = marker_at(12, 7, committed=False), marker_at(12, 7, committed=True)
ABORTED = AbortedTransaction(7, 10, 12, 13)


def test_aborted_data_go_and_their_marker_stays_once_more() -> None:
    batch_filter = filter_with(map_of(batch_at(20, [("z", "1")])), aborted=[ABORTED])
    assert rewritten(batch_filter, DATA) is None
    assert batch_filter.rewrite(ABORT, read_header(ABORT)) is ABORT
    assert batch_filter.trail.take_indexed() == [ABORTED]
    assert batch_filter.trail.take_indexed() == []


@pytest.mark.parametrize("marker", [ABORT, COMMIT], ids=["abort", "commit"])
def test_a_marker_without_data_gets_a_horizon_and_goes_then(marker: bytes) -> None:
    batch_filter = filter_with(OffsetMap(10**6, 20))
    kept = rewritten(batch_filter, marker)
    assert kept is not None
    assert read_header(kept).delete_horizon_ms == NOW + DAY
    assert decode_records(kept) == decode_records(marker)
    assert batch_filter.trail.take_indexed() == []
    early = filter_with(OffsetMap(10**6, 20), now_ms=NOW + DAY - 1)
    assert early.rewrite(kept, read_header(kept)) is kept
    assert rewritten(filter_with(OffsetMap(10**6, 20), now_ms=NOW + DAY), kept) is None


def test_a_marker_stays_as_long_as_its_data() -> None:
    offsets = OffsetMap(10**6, 20)
    batch_filter = filter_with(offsets)
    assert batch_filter.rewrite(DATA, read_header(DATA)) is DATA
    assert batch_filter.rewrite(COMMIT, read_header(COMMIT)) is COMMIT
    second = marker_at(15, 7, committed=True)
    assert read_header(rewritten(batch_filter, second) or b"").has_delete_horizon


def test_a_marker_with_the_last_epoch_of_a_live_producer_keeps_its_header() -> None:
    spent = rewritten(filter_with(OffsetMap(10**6, 20)), ABORT)
    assert spent is not None
    alive = {7: LastRecord(last_data_offset=None, producer_epoch=0)}
    kept = rewritten(filter_with(OffsetMap(10**6, 20), last_records=alive, now_ms=NOW + DAY), spent)
    assert kept is not None
    header = read_header(kept)
    assert header.is_control and header.record_count == 0 and not header.has_delete_horizon
    again = filter_with(OffsetMap(10**6, 20), last_records=alive, now_ms=NOW + 9 * DAY)
    assert again.rewrite(kept, header) is kept
    newer = {7: LastRecord(last_data_offset=None, producer_epoch=1)}
    assert rewritten(filter_with(OffsetMap(10**6, 20), last_records=newer, now_ms=NOW + DAY), kept) is None


def test_only_the_data_of_the_aborted_transaction_itself_go() -> None:
    later = batch_at(13, [("b", "1")], producer=ProducerStamp(7, 0, 1, True))
    other = batch_at(11, [("c", "1")], producer=ProducerStamp(8, 0, 0, True))
    plain = batch_at(14, [("d", "1")], producer=ProducerStamp(7, 0, 2))
    batch_filter = filter_with(OffsetMap(10**6, 20), aborted=[ABORTED])
    assert [rewritten(batch_filter, batch) for batch in (DATA, other, ABORT, later, plain)] == [
        None, other, ABORT, later, plain,
    ]  # fmt: skip


def test_an_aborted_transaction_is_known_by_its_offsets_when_its_marker_was_not_seen() -> None:
    trail = TransactionTrail([ABORTED, AbortedTransaction(7, 30, 35, 36)])
    after = batch_at(20, [("b", "1")], producer=PRODUCER)
    second = batch_at(31, [("b", "1")], producer=PRODUCER)
    assert not trail.is_aborted(read_header(after))
    assert trail.is_aborted(read_header(second))


# --- the map


def test_short_and_long_keys_never_meet() -> None:
    assert slot_of(b"k" * SHORT_KEY_BYTES) == b"k" * SHORT_KEY_BYTES
    long = slot_of(b"k" * (SHORT_KEY_BYTES + 1))
    assert isinstance(long, int) and 0 <= long < 2**128
    assert long != slot_of(b"k" * (SHORT_KEY_BYTES + 2))


def test_long_keys_are_compacted_like_short_ones() -> None:
    batch = batch_at(0, [("a" * 500, "1"), ("b" * 500, "2"), ("a" * 500, "3")])
    kept = rewritten(filter_with(map_of(batch)), batch)
    assert kept is not None
    assert values(kept) == [(1, b"2"), (2, b"3")]


def test_a_full_map_takes_no_further_batch_and_ends_in_front_of_it() -> None:
    first, second = batch_at(0, [("a", "1"), ("b", "1")]), batch_at(2, [("c", "1"), ("a", "2")])
    offsets = OffsetMap(3 * ENTRY_BYTES, 0)
    assert offsets.add(first, read_header(first))
    assert not offsets.add(second, read_header(second))
    assert (offsets.latest, offsets.end_offset) == ({b"a": 0, b"b": 1}, 2)


def test_the_first_batch_is_taken_whatever_its_size_or_no_round_would_ever_end() -> None:
    batch = batch_at(0, [("a", "1"), ("b", "1")])
    offsets = OffsetMap(1, 0)
    assert offsets.add(batch, read_header(batch))
    assert offsets.end_offset == 2


def test_records_in_front_of_the_dirty_part_are_not_in_the_map() -> None:
    assert map_of(batch_at(0, [("a", "1"), ("b", "1"), ("a", "2")]), start=1).latest == {b"b": 1, b"a": 2}


@pytest.mark.parametrize("count", [0, 1, 16_384, 100_000])
def test_offsets_that_stay_are_put_in_order_in_steps(count: int) -> None:
    offsets, pauses = OffsetMap(1 << 30, 0), list[None]()
    shuffled = list(range(count))
    Random(count).shuffle(shuffled)
    offsets.latest.update((slot_of(b"%d" % number), number) for number in shuffled)
    offsets.skip_to(count)
    offsets.settle(lambda: pauses.append(None))
    assert offsets.count_staying(0, count) == count
    assert all(offsets.count_staying(at, at + 1) == 1 for at in range(0, count, 997))
    assert len(pauses) >= count / 16_384
