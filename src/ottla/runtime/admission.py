"""Letting a client's transaction into a partition (KIP-890).

Before the first batch of a transaction is appended, the coordinator is asked: classic producers have added the
partition themselves, which is verified; from transactions version 2 on the partition is added here.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ottla.base.errors import ErrorCode, Refused
from ottla.core.producers import Verification
from ottla.core.transactions.asks import AddPartitions, AddPartitionsReply, VerifyPartitions, VerifyPartitionsReply
from ottla.runtime.partition import Admission, Partition
from ottla.runtime.transaction_coordinator import TransactionCoordinator


class Entrant(NamedTuple):
    """A producer in the epoch in which it writes. `is_adding`: it leaves adding partitions to the brokers."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    is_adding: bool


class Place(NamedTuple):
    """Where a batch wants in, and the sequence it begins with; -1 if it has none."""

    partition: Partition
    sequence: int = -1


class Admissions:
    def __init__(self, transactions: TransactionCoordinator, is_verifying: bool) -> None:
        """`is_verifying`: transaction.partition.verification.enable."""
        self._transactions = transactions
        self._is_verifying = is_verifying

    async def ask(self, entrant: Entrant, places: Sequence[Place]) -> list[Admission | Refused]:
        """What the coordinator says of each partition."""
        answers: dict[Partition, Admission | Refused] = {}
        asked: list[Place] = []
        for place in places:
            producers = place.partition.log.producers
            if producers.is_fenced(entrant.producer_id, entrant.producer_epoch):
                # The coordinator may have another producer id by now, and not know this one any more.
                answers[place.partition] = Refused(ErrorCode.INVALID_PRODUCER_EPOCH, "a later epoch has been here")
            elif not producers.has_open(entrant.producer_id, entrant.producer_epoch):
                asked.append(place)
        if asked:
            answers.update(await self._ask_coordinator(entrant, asked))
        # Where it is open, the epoch tells a batch that comes late from one of this transaction.
        is_open = Admission(is_epoch_bumped=entrant.is_adding)
        return [answers.get(place.partition, is_open) for place in places]

    async def _ask_coordinator(
        self, entrant: Entrant, places: Sequence[Place]
    ) -> Iterable[tuple[Partition, Admission | Refused]]:
        producer_id, epoch = entrant.producer_id, entrant.producer_epoch
        verifications = [
            place.partition.log.producers.begin_verification(producer_id, epoch, place.sequence) for place in places
        ]
        partitions = [place.partition for place in places]
        answers = await (self._add if entrant.is_adding else self._verify)(entrant, partitions, verifications)
        return zip(partitions, answers, strict=True)

    async def _add(
        self, entrant: Entrant, partitions: Sequence[Partition], verifications: Sequence[Verification]
    ) -> list[Admission | Refused]:
        ask = AddPartitions(
            transactional_id=entrant.transactional_id,
            producer_id=entrant.producer_id,
            producer_epoch=entrant.producer_epoch,
            partitions=frozenset((one.key.topic, one.key.partition) for one in partitions),
            transaction_version=2,
            is_implicit=True,
        )
        try:
            reply: AddPartitionsReply = await self._transactions.ask(
                entrant.transactional_id, lambda core, now_ms: core.add_partitions(ask, now_ms)
            )
        except Refused as refusal:
            return [refusal] * len(partitions)
        if reply.error is not ErrorCode.NONE:
            return [Refused(reply.error, "the partition was not added to the transaction")] * len(partitions)
        # A marker that has come meanwhile is of an epoch before this one, and has nothing to do with it.
        return [
            Admission(
                one.log.producers.begin_verification(
                    entrant.producer_id, verification.epoch, verification.lowest_sequence
                ),
                is_epoch_bumped=True,
            )
            for one, verification in zip(partitions, verifications, strict=True)
        ]

    async def _verify(
        self, entrant: Entrant, partitions: Sequence[Partition], verifications: Sequence[Verification]
    ) -> list[Admission | Refused]:
        if not self._is_verifying:
            return [Admission(verification) for verification in verifications]
        ask = VerifyPartitions(
            transactional_id=entrant.transactional_id,
            producer_id=entrant.producer_id,
            producer_epoch=entrant.producer_epoch,
            partitions=tuple((one.key.topic, one.key.partition) for one in partitions),
        )
        try:
            reply: VerifyPartitionsReply = await self._transactions.ask(
                entrant.transactional_id, lambda core, now_ms: core.verify_partitions(ask, now_ms)
            )
        except Refused as refusal:
            errors, why = [refusal.code] * len(partitions), refusal.why
        else:
            errors, why = list(reply.errors), "the partition was not added to the transaction"
        return [
            Admission(verification) if error is ErrorCode.NONE else Refused(error, why)
            for verification, error in zip(verifications, errors, strict=True)
        ]
