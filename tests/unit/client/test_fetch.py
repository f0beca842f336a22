"""Which of the fetched batches count, against logs in which transactions of several producers lie side by side."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from ottla.base.types import Offset
from ottla.client.fetch import Aborted, Fetched, data_batches, next_offset
from ottla.wire.batch import NO_STAMP, ProducerStamp, Record, decode_records, encode_batch, new_records
from ottla.wire.batch_header import CONTROL, read_header, seal_batch

PLAIN = -1


class Log:
    def __init__(self) -> None:
        self.batches: list[tuple[int, bytes]] = []
        self.end = 0
        self.open: dict[int, tuple[int, list[bytes]]] = {}
        """By producer: where its transaction begins, and what is in it."""
        self.counting: set[bytes] = set()
        self.aborted: list[tuple[int, int, int]] = []
        """Producer, first offset, offset of the marker."""

    def write(self, producer_id: int, values: list[bytes]) -> None:
        if producer_id == PLAIN:
            self.counting.update(values)
        else:
            self.open.setdefault(producer_id, (self.end, []))[1].extend(values)
        stamp = NO_STAMP if producer_id == PLAIN else ProducerStamp(producer_id, 0, 0, True)
        self._append(new_records([(None, value) for value in values], 0), stamp, 0)

    def end_transaction(self, producer_id: int, is_commit: bool) -> None:
        first, values = self.open.pop(producer_id)
        if is_commit:
            self.counting.update(values)
        else:
            self.aborted.append((producer_id, first, self.end))
        self._append(
            new_records([(b"\0\0\0" + bytes([is_commit]), b"")], 0), ProducerStamp(producer_id, 0, -1, True), CONTROL
        )

    def _append(self, records: list[Record], stamp: ProducerStamp, attributes: int) -> None:
        plain = encode_batch(records, producer=stamp)
        header = read_header(plain)
        header = header._replace(base_offset=self.end, attributes=header.attributes | attributes)
        self.batches.append((self.end, seal_batch(header, plain[61:])))
        self.end += len(records)

    def fetch(self, offset: int, size: int) -> Fetched:
        """As a broker answers: whole batches up to the last stable offset, then cut off somewhere."""
        stable = min([self.end, *(first for first, _ in self.open.values())])
        found = [batch for at, batch in self.batches if read_header(batch).last_offset >= offset and at < stable]
        records = b"".join(found)[: max(size, len(found[0]) if found else 0)]
        end = next_offset(Fetched(memoryview(records), Offset(0), Offset(0), Offset(0), ()), offset)
        aborted = [
            Aborted(who, Offset(first)) for who, first, marker in self.aborted if marker >= offset and first < end
        ]
        return Fetched(memoryview(records), Offset(self.end), Offset(stable), Offset(0), tuple(aborted))


@given(seed=st.integers(0, 2**32), steps=st.integers(0, 60), size=st.integers(1, 900))
def test_what_is_committed_is_read_once_and_what_is_aborted_never(seed: int, steps: int, size: int) -> None:
    rng, log = Random(seed), Log()
    for step in range(steps):
        who = rng.choice((PLAIN, 1, 2, 3))
        if who in log.open and rng.random() < 0.5:
            log.end_transaction(who, rng.random() < 0.5)
        else:
            log.write(who, [b"%d.%d" % (step, at) for at in range(rng.randint(1, 4))])
    for who in list(log.open):
        log.end_transaction(who, rng.random() < 0.5)
    read: list[bytes] = []
    at = 0
    while at < log.end:
        fetched = log.fetch(at, size)
        for position, header in data_batches(fetched):
            batch = fetched.records[position : position + header.size]
            read += [record.value or b"" for record in decode_records(batch) if record.offset >= at]
        at = next_offset(fetched, at)
    assert len(read) == len(set(read))
    assert set(read) == log.counting
