"""Who reads committed records only sees no record of an aborted transaction, and every other one."""

from hypothesis import given
from hypothesis import strategies as st

from ottla.spark.arrow.decode import RecordDecoder
from ottla.spark.arrow.visible import ALL_OFFSETS, Fetched, Window
from ottla.wire.batch import ProducerStamp, Record, encode_batch, patch_offsets, read_header
from ottla.wire.control import EndTxnMarker, encode_control_batch, encode_end_txn_marker
from tests.unit.spark.arrow.fetches import NOW

OFFSETS = RecordDecoder(["offset"])


def seen(fetched: Fetched, window: Window = ALL_OFFSETS) -> list[int]:
    return [offset for batch in OFFSETS.decode(fetched, window).batches for offset in batch["offset"].to_pylist()]


class History:
    """A partition's log as producers write it, with the truth about every record."""

    def __init__(self) -> None:
        self.batches: list[bytes] = []
        self.end = 0
        self.offsets: list[int] = []
        self.dead: set[int] = set()
        self.aborted: list[tuple[int, int]] = []
        self._markers: list[int] = []
        self._open: dict[int, list[int]] = {}

    def write(self, producer: int, count: int, transactional: bool) -> None:
        records = [Record(self.end + i, NOW, None, b"v") for i in range(count)]
        stamp = ProducerStamp(producer, 0, 0, transactional)
        self._append(encode_batch(records, base_offset=self.end, producer=stamp))
        offsets = [record.offset for record in records]
        self.offsets += offsets
        if transactional:
            self._open.setdefault(producer, []).extend(offsets)

    def finish(self, producer: int, committed: bool) -> None:
        held = self._open.pop(producer, [])
        if held and not committed:
            self.aborted.append((producer, held[0]))
            self._markers.append(self.end)
            self.dead.update(held)
        self._append(encode_end_txn_marker(EndTxnMarker(producer, 0, committed, 0), timestamp_ms=NOW))

    def told(self, start: int) -> list[tuple[int, int]]:
        """What a broker says to who fetches from `start` on."""
        return [pair for pair, marker in zip(self.aborted, self._markers, strict=True) if marker >= start]

    def _append(self, batch: bytes) -> None:
        placed = bytearray(batch)
        patch_offsets(placed, 0, self.end, 0)
        self.batches.append(bytes(placed))
        self.end = read_header(placed).next_offset


@st.composite
def histories(draw: st.DrawFn) -> History:
    history = History()
    producers = st.integers(1, 3)
    for _ in range(draw(st.integers(0, 14))):
        match draw(st.sampled_from(["write", "write", "plain", "commit", "abort"])):
            case "write":
                history.write(draw(producers), draw(st.integers(1, 3)), transactional=True)
            case "plain":
                history.write(draw(producers), draw(st.integers(1, 3)), transactional=False)
            case end:
                history.finish(draw(producers), committed=end == "commit")
    return history


@given(histories(), st.integers(0, 30))
def test_aborted_records_are_not_seen_and_all_others_are(history: History, start: int) -> None:
    aborted = list(reversed(history.aborted))  # in whatever order the answer has them
    fetched = Fetched("orders", 3, b"".join(history.batches), aborted)
    alive = [offset for offset in history.offsets if offset not in history.dead and offset >= start]
    assert seen(fetched, Window(start)) == alive


@given(histories(), st.data())
def test_what_was_aborted_is_known_also_in_the_middle_of_the_log(history: History, data: st.DataObject) -> None:
    """The answer to a fetch names the transactions whose markers are ahead, also those that began before it."""
    first = data.draw(st.integers(0, len(history.batches)))
    start = sum(read_header(batch).last_offset_delta + 1 for batch in history.batches[:first])
    fetched = Fetched("orders", 3, b"".join(history.batches[first:]), history.told(start))
    assert seen(fetched, Window(start)) == [
        offset for offset in history.offsets if offset >= start and offset not in history.dead
    ]


@given(histories())
def test_who_reads_uncommitted_records_sees_all_but_the_markers(history: History) -> None:
    assert seen(Fetched("orders", 3, b"".join(history.batches))) == history.offsets


def test_a_producer_may_begin_again_after_its_transaction_was_aborted() -> None:
    history = History()
    history.write(1, 2, transactional=True)
    history.finish(1, committed=False)
    history.write(1, 2, transactional=True)
    history.finish(1, committed=True)
    assert seen(Fetched("orders", 3, b"".join(history.batches), history.aborted)) == [3, 4]


def test_a_commit_does_not_end_what_another_marker_aborts() -> None:
    history = History()
    history.write(1, 1, transactional=True)
    history.write(2, 1, transactional=True)
    history.finish(2, committed=True)
    history.write(1, 1, transactional=True)
    history.finish(1, committed=False)
    assert seen(Fetched("orders", 3, b"".join(history.batches), history.aborted)) == [1]


def test_the_position_is_past_markers_and_aborted_records() -> None:
    history = History()
    history.write(1, 3, transactional=True)
    history.finish(1, committed=False)
    found = OFFSETS.decode(Fetched("orders", 3, b"".join(history.batches), history.aborted))
    assert (found.row_count, found.next_offset) == (0, 4)


def test_control_records_that_are_no_markers_are_passed_over() -> None:
    control = encode_control_batch([(2, b"leader")], timestamp_ms=NOW)
    assert seen(Fetched("orders", 3, control, [])) == []
