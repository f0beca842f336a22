"""The producers of one partition.

`check` decides and changes nothing; `apply` and `end_transaction` follow the log and never refuse: a batch that
stands in the log counts, whoever wrote it. The rules of sequences and epochs stand in `_refuse_batch`, those of
markers in `check_marker`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from ottla.base.errors import ErrorCode, Refused
from ottla.base.limits import PRODUCER_BATCHES_REMEMBERED, VERIFICATIONS_MAX
from ottla.core.producers.producer import NO_OFFSET, Producer, ProducerSnapshot, RememberedBatch
from ottla.wire.batch_header import CONTROL, TRANSACTIONAL, BatchHeader
from ottla.wire.control import EndTxnMarker

PRODUCER_ID_EXPIRATION_MS = 86_400_000
_new = tuple.__new__


class Duplicate(NamedTuple):
    """The batch is in the log already; the producer gets the answer that it missed."""

    base_offset: int
    append_time: int


class Verification:
    """A question to the coordinator, whether a producer's transaction includes this partition.

    Its answer is worthless once the transaction has ended here, which voids it. Until a batch is let in it is known
    with which sequence the transaction begins: if the first batch was turned away, those behind it have to wait.
    """

    __slots__ = ("epoch", "lowest_sequence")

    def __init__(self, epoch: int, sequence: int) -> None:
        self.epoch = epoch
        self.lowest_sequence = sequence

    def note(self, epoch: int, sequence: int) -> None:
        if epoch > self.epoch:
            self.epoch, self.lowest_sequence = epoch, sequence
        elif epoch == self.epoch:
            self.lowest_sequence = min(self.lowest_sequence, sequence)


class CompletedTxn(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    """Of the marker."""
    is_aborted: bool
    last_stable_offset: int
    """The first offset that is undecided once the transaction is over."""


class ProducerTable:
    def __init__(self, expiration_ms: int = PRODUCER_ID_EXPIRATION_MS) -> None:
        self.expiration_ms = expiration_ms
        self._producers: dict[int, Producer] = {}
        self._open: dict[int, int] = {}
        """First offset → producer id of the open transactions. Offsets rise, so the oldest comes first."""
        self._unreplicated: dict[int, int] = {}
        """First → last offset of transactions whose marker the high watermark has not passed."""
        self._verifications: dict[int, Verification] = {}
        self.first_unstable_offset: int | None = None
        """Where the oldest transaction begins that is open or whose end is not replicated."""

    def __len__(self) -> int:
        return len(self._producers)

    def __iter__(self) -> Iterator[Producer]:
        return iter(self._producers.values())

    def get(self, producer_id: int) -> Producer | None:
        return self._producers.get(producer_id)

    def has_open(self, producer_id: int, epoch: int) -> bool:
        """Whether this producer has a transaction open here that it began in this epoch."""
        producer = self._producers.get(producer_id)
        return producer is not None and producer.txn_first_offset >= 0 and producer.epoch == epoch

    def is_fenced(self, producer_id: int, epoch: int) -> bool:
        """Whether a later epoch of this producer is known here."""
        producer = self._producers.get(producer_id)
        return producer is not None and producer.epoch > epoch

    # --- decide

    def begin_verification(self, producer_id: int, epoch: int, sequence: int) -> Verification:
        """Before the coordinator is asked about a batch that begins with `sequence`."""
        verification = self._verifications.get(producer_id)
        if verification is None:
            if len(self._verifications) >= VERIFICATIONS_MAX:
                del self._verifications[next(iter(self._verifications))]
            verification = self._verifications[producer_id] = Verification(epoch, sequence)
        else:
            verification.note(epoch, sequence)
        return verification

    def is_verified(self, producer_id: int, verification: Verification) -> bool:
        return self._verifications.get(producer_id) is verification

    def check(
        self, header: BatchHeader, *, is_verified: bool = True, supports_epoch_bump: bool = False
    ) -> Duplicate | None:
        """None if the batch may be appended; raises Refused.

        `is_verified` says that the coordinator has this partition in the transaction, or that nobody asks (KIP-890);
        `supports_epoch_bump` that the producer begins each transaction with a new epoch (transactions version 2).
        """
        producer = self._producers.get(header.producer_id)
        if producer is None:
            self._refuse_overtaking(header)
            if supports_epoch_bump and header.base_sequence != 0:
                raise Refused(
                    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                    f"producer {header.producer_id} is not known here and began with sequence {header.base_sequence}",
                )
            if header.is_transactional and not is_verified:
                raise _not_verified(header)
            return None
        first = header.base_sequence
        if producer.epoch == header.producer_epoch:
            batches = producer.batches
            if (
                batches
                and first == batches[-1][0] + 1
                and producer.txn_first_offset < 0
                and header.attributes & TRANSACTIONAL == 0
            ):
                return None  # the common case: the next batch of an idempotent producer
            seen = producer.find_duplicate(header.producer_epoch, first, header.last_sequence)
            if seen is not None:
                return Duplicate(seen.first_offset, seen.timestamp)
        self._refuse_overtaking(header)
        _refuse_batch(producer, header, is_verified)
        return None

    def _refuse_overtaking(self, header: BatchHeader) -> None:
        """Raise Refused if an earlier batch of the producer was seen, and has not been let in yet."""
        verification = self._verifications.get(header.producer_id)
        if verification is None or verification.epoch != header.producer_epoch:
            return
        if header.base_sequence > verification.lowest_sequence:
            raise Refused(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"sequence {header.base_sequence} of producer {header.producer_id} before "
                f"{verification.lowest_sequence}, which was not let in yet",
            )

    def check_own(self, header: BatchHeader, *, is_verified: bool) -> None:
        """Like `check`, for a coordinator's batch inside a client's transaction: it has no sequence."""
        producer = self._producers.get(header.producer_id)
        if producer is not None:
            _refuse_old_epoch(producer, header)
        if not is_verified and (producer is None or producer.txn_first_offset < 0):
            raise _not_verified(header)

    def check_marker(self, marker: EndTxnMarker, transaction_version: int) -> None:
        """Whether a coordinator may end this producer's transaction; raises Refused.

        From transactions version 2 on the marker carries a higher epoch than the data, but for one that is sent again.
        """
        producer = self._producers.get(marker.producer_id)
        if producer is None:
            return
        epoch = marker.producer_epoch
        is_retry = epoch == producer.epoch and producer.txn_first_offset < 0
        is_stale = epoch <= producer.epoch and not is_retry if transaction_version >= 2 else epoch < producer.epoch
        if is_stale:
            raise Refused(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"a marker of epoch {epoch} for producer {marker.producer_id} whose epoch is {producer.epoch}",
            )
        if marker.coordinator_epoch < producer.coordinator_epoch:
            raise Refused(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"coordinator epoch {marker.coordinator_epoch} where {producer.coordinator_epoch} has been seen",
            )

    # --- apply

    def apply(self, header: BatchHeader, base_offset: int) -> None:
        """A data batch of a producer stands in the log at `base_offset`."""
        producer_id = header.producer_id
        producer = self._producers.get(producer_id)
        if producer is None:
            producer = self._producers[producer_id] = Producer(producer_id, header.producer_epoch)
        elif producer.epoch != header.producer_epoch:
            producer.enter_epoch(header.producer_epoch)
        delta, timestamp = header.last_offset_delta, header.max_timestamp
        producer.batches.append(_new(RememberedBatch, (header.last_sequence, base_offset + delta, delta, timestamp)))
        producer.last_timestamp = timestamp
        if header.attributes & TRANSACTIONAL and producer.txn_first_offset < 0:
            self._verifications.pop(producer_id, None)
            producer.txn_first_offset = base_offset
            self._open[base_offset] = producer_id
            if self.first_unstable_offset is None:
                self.first_unstable_offset = base_offset

    def end_transaction(self, marker: EndTxnMarker, offset: int, timestamp: int) -> CompletedTxn | None:
        """A marker stands in the log at `offset`; None if there was no data for it to end."""
        producer = self._producers.get(marker.producer_id)
        if producer is None:
            producer = self._producers[marker.producer_id] = Producer(marker.producer_id, marker.producer_epoch)
        producer.enter_epoch(marker.producer_epoch)
        producer.coordinator_epoch = marker.coordinator_epoch
        producer.last_timestamp = timestamp
        self._verifications.pop(marker.producer_id, None)
        first = producer.txn_first_offset
        if first < 0:
            return None
        producer.txn_first_offset = NO_OFFSET
        del self._open[first]
        self._unreplicated[first] = offset
        self._find_first_unstable()
        last_stable = next(iter(self._open), offset + 1)
        return CompletedTxn(marker.producer_id, first, offset, not marker.committed, last_stable)

    def advance_high_watermark(self, high_watermark: int) -> None:
        """Markers below it are replicated, so their transactions are stable."""
        if not self._unreplicated:
            return
        replicated = [first for first, last in self._unreplicated.items() if last < high_watermark]
        for first in replicated:
            del self._unreplicated[first]
        if replicated:
            self._find_first_unstable()

    def remove_expired(self, now_ms: int) -> list[int]:
        """Forget the producers that have been idle for long, never one with an open transaction."""
        self._verifications.clear()  # of those whose batch never came; one that is under way is asked for again
        expired = [producer.producer_id for producer in self if self._is_expired(producer, now_ms)]
        for producer_id in expired:
            del self._producers[producer_id]
        return expired

    def _is_expired(self, producer: Producer, now_ms: int) -> bool:
        return producer.txn_first_offset < 0 and now_ms - producer.last_timestamp >= self.expiration_ms

    def _find_first_unstable(self) -> None:
        self.first_unstable_offset = min((*self._unreplicated, *islice(self._open, 1)), default=None)

    # --- snapshots

    def snapshot(self) -> list[ProducerSnapshot]:
        return [producer.snapshot() for producer in self]

    def restore(self, snapshots: Iterable[ProducerSnapshot], now_ms: int) -> None:
        """Be what `snapshots` say and nothing else, without what has expired since."""
        self.clear()
        for snapshot in sorted(snapshots, key=lambda entry: entry.txn_first_offset):
            producer = Producer.restored(snapshot)
            if self._is_expired(producer, now_ms):
                continue
            self._producers[snapshot.producer_id] = producer
            if snapshot.txn_first_offset >= 0:
                self._open[snapshot.txn_first_offset] = snapshot.producer_id
        self._find_first_unstable()

    def recall(self, headers: Iterable[BatchHeader]) -> None:
        """Remember batches that a snapshot left out; `headers` are of the log in front of it, in their order."""
        found: dict[int, deque[RememberedBatch]] = {}
        for header in headers:
            producer = self._producers.get(header.producer_id)
            if producer is None or producer.epoch != header.producer_epoch or header.attributes & CONTROL:
                continue
            if not producer.batches or header.last_offset >= producer.batches[0].last_offset:
                continue
            batch = RememberedBatch(
                header.last_sequence, header.last_offset, header.last_offset_delta, header.max_timestamp
            )
            found.setdefault(header.producer_id, deque(maxlen=PRODUCER_BATCHES_REMEMBERED - 1)).append(batch)
        for producer_id, batches in found.items():
            self._producers[producer_id].remember_earlier(batches)

    def clear(self) -> None:
        self._producers.clear()
        self._open.clear()
        self._unreplicated.clear()
        self._verifications.clear()
        self.first_unstable_offset = None


def _refuse_batch(producer: Producer, header: BatchHeader, is_verified: bool) -> None:
    """Raise Refused if a batch that is no duplicate does not follow what the producer has written."""
    epoch, first = header.producer_epoch, header.base_sequence
    _refuse_old_epoch(producer, header)
    if not (producer.expects(first) if epoch == producer.epoch else first == 0):
        raise Refused(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"sequence {first} of producer {header.producer_id} after {producer.last_sequence} "
            f"(epoch {epoch} after {producer.epoch})",
        )
    in_transaction = producer.txn_first_offset >= 0
    if in_transaction and not header.is_transactional:
        raise Refused(
            ErrorCode.INVALID_TXN_STATE,
            f"producer {header.producer_id} has a transaction open, this batch is not of it",
        )
    if header.is_transactional and not in_transaction and not is_verified:
        raise _not_verified(header)


def _refuse_old_epoch(producer: Producer, header: BatchHeader) -> None:
    if header.producer_epoch < producer.epoch:
        raise Refused(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"epoch {header.producer_epoch} of producer {header.producer_id}, whose epoch is {producer.epoch}",
        )


def _not_verified(header: BatchHeader) -> Refused:
    return Refused(
        ErrorCode.INVALID_TXN_STATE, f"producer {header.producer_id} has no transaction open that this partition is in"
    )
