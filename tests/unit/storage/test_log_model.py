"""A log against a list of batches: whatever is done to it, it holds what the list holds."""

from __future__ import annotations

import shutil
import tempfile
from bisect import bisect_left
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ottla.base.topic_settings import LogConfig
from ottla.core.producers import ProducerTable
from ottla.storage import tail
from ottla.storage.files import Files
from ottla.storage.log import Log, LogPlace, LogStart
from ottla.wire.batch import ProducerStamp, patch_offsets, read_header
from tests.unit.storage.batches import append, batch, everything

CONFIG = LogConfig(segment_bytes=2000, index_interval_bytes=150, segment_ms=500)
SIZES = st.sampled_from([1, 20, 200, 700])


class LogAgainstList(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.batches_max, tail.BATCHES_MAX = tail.BATCHES_MAX, 4  # so that the indexes are asked as well
        self.directory = Path(tempfile.mkdtemp(prefix="ottla-log-"))
        self.place = LogPlace(self.directory, "topic", 0)
        self.batches: list[bytes] = []
        self.start = self.end = self.epoch = self.time = 0
        self.sequences: dict[int, int] = {}
        self.log = self.opened(clean=False)

    def opened(self, clean: bool, recovery_point: int = 0) -> Log:
        start = LogStart(clean=clean, recovery_point=recovery_point, log_start_offset=self.start)
        return Log.open(self.place, CONFIG, start, 0, Files(open_max=3))

    def teardown(self) -> None:
        tail.BATCHES_MAX = self.batches_max
        self.log.close(clean=False)
        shutil.rmtree(self.directory)

    def remember(self, data: bytes | bytearray) -> None:
        self.batches.append(bytes(data))
        self.end = read_header(data).next_offset

    # --- what is done to it

    @initialize(start=st.sampled_from([0, 5, 2**31]))
    def begin(self, start: int) -> None:
        if start:
            self.log.truncate_fully_and_start_at(start)
        self.start = self.end = start

    @rule(count=st.integers(1, 4), size=SIZES, later=st.integers(-50, 300), bump=st.booleans())
    def append(self, count: int, size: int, later: int, bump: bool) -> None:
        self.epoch += bump
        self.time = max(self.time + later, 0)
        data = batch(count, timestamp=self.time, size=size)
        assert append(self.log, data, epoch=self.epoch) == self.end
        assert (read_header(data).base_offset, read_header(data).leader_epoch) == (self.end, self.epoch)
        self.remember(data)

    @rule(producer=st.integers(0, 2), count=st.integers(1, 4))
    def append_idempotently(self, producer: int, count: int) -> None:
        sequence = self.sequences.get(producer, 0)
        data = batch(count, timestamp=self.time, stamp=ProducerStamp(producer, 0, sequence))
        append(self.log, data, epoch=self.epoch)
        self.sequences[producer] = sequence + count
        self.remember(data)

    @rule(gaps=st.lists(st.sampled_from([0, 0, 3]), min_size=1, max_size=4), size=SIZES)
    def append_as_follower(self, gaps: list[int], size: int) -> None:
        sent, base = [], self.end
        for gap in gaps:
            data = batch(2, timestamp=self.time, size=size)
            patch_offsets(data, 0, base + gap, self.epoch)
            sent.append(data)
            base += gap + 2
        self.log.append_as_follower(b"".join(sent), 0)
        for data in sent:
            self.remember(data)

    @rule()
    def roll(self) -> None:
        self.log.roll(0)

    @rule()
    def flush(self) -> None:
        self.log.flush()
        assert self.log.recovery_point == self.end

    @precondition(lambda self: self.batches)
    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        kept = data.draw(st.integers(0, len(self.batches)))
        # Where a gap was compacted away, a log that is opened again ends in front of it.
        offset = read_header(self.batches[kept - 1]).next_offset if kept else self.log.segments[0].base_offset
        self.log.truncate_to(offset)
        del self.batches[kept:]
        self.end = offset
        self.start = min(self.start, offset)
        self.forget_epochs()

    def forget_epochs(self) -> None:
        self.epoch += 1  # what was cut off had been written by a leader that is none any more
        self.sequences = {p.producer_id: p.last_sequence + 1 for p in self.fold()}

    @rule(ahead=st.sampled_from([0, 7]))
    def start_anew(self, ahead: int) -> None:
        self.start = self.end = self.end + ahead
        self.log.truncate_fully_and_start_at(self.end)
        self.batches.clear()
        self.sequences.clear()

    @rule(part=st.floats(0, 1))
    def advance_start(self, part: float) -> None:
        self.start += int((self.end - self.start) * part)
        self.log.advance_start(self.start)

    @rule()
    def reopen_after_clean_stop(self) -> None:
        self.log.close()
        self.log = self.opened(clean=True, recovery_point=self.log.recovery_point)
        assert not self.log.has_recovered
        assert self.log.recovery_point == self.end

    @rule(damage=st.sampled_from(["none", "missing", "garbage", "zeros", "cut", "snapshot"]))
    def reopen_after_crash(self, damage: str) -> None:
        self.log.close(clean=False)
        self.damage_indexes(damage)
        self.log = self.opened(clean=False, recovery_point=self.log.recovery_point)

    def damage_indexes(self, damage: str) -> None:
        """What lies behind the recovery point is rebuilt, so nothing that a crash makes of it may matter."""
        active = self.log.active
        for suffix in (".index", ".timeindex"):
            path = Path(active.path(suffix))
            if damage == "missing":
                path.unlink()
            elif damage == "garbage":
                path.write_bytes(b"\xa5garbage" * 5)
            elif damage == "zeros":
                path.write_bytes(path.read_bytes() + bytes(4096))
            elif damage == "cut":
                path.write_bytes(path.read_bytes()[:-5])
        if damage == "snapshot":
            for path in Path(self.place.path).glob("*.snapshot"):
                path.write_bytes(path.read_bytes()[:-1] + b"\xff")

    @rule(lost=st.integers(0, 3000), filler=st.sampled_from([b"", b"\0", b"\xff"]))
    def crash_with_torn_tail(self, lost: int, filler: bytes) -> None:
        """Any byte of what was never forced to the disk may be the last that got there."""
        self.log.close(clean=False)
        active = self.log.active
        path = Path(active.path(".log"))
        in_active = [b for b in self.batches if read_header(b).base_offset >= active.base_offset]
        forced = sum(len(b) for b in in_active if read_header(b).next_offset <= self.log.recovery_point)
        size = max(forced, active.size - lost)
        path.write_bytes(path.read_bytes()[:size] + filler * (active.size - size))
        # What was lost may have been zeros itself.
        while in_active and not path.read_bytes().startswith(b"".join(in_active)):
            self.batches.pop()
            in_active.pop()
        base = active.base_offset
        self.end = read_header(self.batches[-1]).next_offset if in_active else base
        recovery_point = self.log.recovery_point
        self.log = self.opened(clean=False, recovery_point=recovery_point)
        if self.end < self.start:  # the log start was checkpointed, the records were not
            self.batches.clear()
            self.end = self.start
        self.forget_epochs()

    # --- what must hold then

    @invariant()
    def holds_what_the_list_holds(self) -> None:
        assert (self.log.start_offset, self.log.end_offset) == (self.start, self.end)
        visible = [b for b in self.batches if read_header(b).next_offset > self.start]
        assert everything(self.log) == b"".join(visible)

    @invariant()
    def knows_its_producers(self) -> None:
        assert sorted(self.log.producers.snapshot()) == sorted(self.fold().snapshot())

    def fold(self) -> ProducerTable:
        table = ProducerTable()
        for data in self.batches:
            header = read_header(data)
            if header.producer_id >= 0:
                table.apply(header, header.base_offset)
        return table

    @invariant()
    def knows_its_epochs(self) -> None:
        firsts: dict[int, int] = {}
        for data in self.batches:
            header = read_header(data)
            firsts.setdefault(header.leader_epoch, header.base_offset)
        ends = [*firsts.values(), self.end][1:]
        expected = [
            (epoch, max(base, self.start))
            for (epoch, base), end in zip(firsts.items(), ends, strict=True)
            if end > self.start
        ]
        known = [entry for entry in self.log.epochs.entries if entry.start_offset < self.end]
        assert known == expected

    @precondition(lambda self: self.end > self.start)
    @rule(part=st.floats(0, 1), limit_part=st.floats(0, 1), max_bytes=st.integers(0, 3000), at_least_one=st.booleans())
    def read(self, part: float, limit_part: float, max_bytes: int, at_least_one: bool) -> None:
        offset = self.start + int((self.end - self.start) * part)
        limit = offset + int((self.end - offset) * limit_part)
        got = self.log.read(offset, max_bytes, limit, at_least_one).read()
        lasts = [read_header(b).last_offset for b in self.batches]
        first = bisect_left(lasts, offset)
        below = bisect_left(lasts, limit)
        wanted = b"".join(self.batches[first:below])
        if offset >= limit or not wanted:
            assert got == b""
            return
        assert wanted.startswith(got)
        assert len(got) <= max_bytes or got == self.batches[first]
        assert got or (max_bytes < len(self.batches[first]) and not at_least_one)
        assert got == wanted or self.is_cut_for_a_reason(first, got, max_bytes)

    def is_cut_for_a_reason(self, first: int, got: bytes, max_bytes: int) -> bool:
        """The next batch would be too much, or lies in the next segment."""
        taken, size = first, 0
        while size < len(got):
            size += len(self.batches[taken])
            taken += 1
        following = self.batches[taken]
        bases = {segment.base_offset for segment in self.log.segments}
        previous_end = read_header(self.batches[taken - 1]).next_offset if taken else self.start
        reaches = any(previous_end <= base <= read_header(following).base_offset for base in bases)
        return reaches or size + len(following) > max_bytes

    @rule(timestamp=st.integers(0, 2000))
    def look_up_by_time(self, timestamp: int) -> None:
        records = [
            (header.max_timestamp, offset)
            for header in map(read_header, self.batches)
            for offset in range(header.base_offset, header.next_offset)
            if offset >= self.start
        ]
        later = [record for record in records if record[0] >= timestamp]
        found = self.log.offset_for_timestamp(timestamp)
        assert (found and found[:2]) == (later[0] if later else None)
        largest = self.log.max_timestamp_offset()
        best = max(records, key=lambda record: (record[0], -record[1]), default=None)
        assert (largest and largest[:2]) == best


LogAgainstList.TestCase.settings = settings(max_examples=80, stateful_step_count=40)
TestLogAgainstList = LogAgainstList.TestCase
