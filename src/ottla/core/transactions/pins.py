"""Members of group commits at their own coordinator: a pinned transaction ends as its group decides, and only so."""

from ottla.base.errors import ErrorCode, Refused
from ottla.core.groups.deadlines import Deadlines
from ottla.core.transactions.asks import AskVerdict
from ottla.core.transactions.outcome import PIN, Due, Outcome
from ottla.core.transactions.records import Identity, Pin, PinRecord, Status, Transaction

VERDICT_WAIT_MS = 5_000


class Pins:
    __slots__ = ("_deadlines", "_pins")

    def __init__(self, deadlines: Deadlines[Due]) -> None:
        self._deadlines = deadlines
        self._pins: dict[str, Pin] = {}

    def get(self, transactional_id: str) -> Pin | None:
        return self._pins.get(transactional_id)

    def check_free(self, transactional_id: str) -> None:
        """Raise Refused if the group has to decide first."""
        if transactional_id in self._pins:
            raise Refused(ErrorCode.CONCURRENT_TRANSACTIONS, f"{transactional_id} is in a group commit")

    def pin(self, transactional_id: str, transaction: Transaction | None, pin: Pin, out: Outcome) -> None:
        known = self._pins.get(transactional_id)
        if known == pin:
            return
        self.check_free(transactional_id)
        if not is_about(pin, transaction):
            raise Refused(ErrorCode.INVALID_TXN_STATE, f"{transactional_id} has no such transaction open")
        out.records.append(PinRecord(transactional_id, pin))

    def store(self, record: PinRecord) -> None:
        if record.value is None:
            self._pins.pop(record.transactional_id, None)
            self._deadlines.cancel(Due(PIN, record.transactional_id))
        else:
            self._pins[record.transactional_id] = record.value

    def arm(self, transactional_id: str, at_ms: int) -> None:
        self._deadlines.set(Due(PIN, transactional_id), at_ms)

    def arm_all(self, now_ms: int) -> None:
        for transactional_id in self._pins:
            self.arm(transactional_id, now_ms)

    def on_due(self, transactional_id: str, out: Outcome) -> None:
        """The decision has not come: its coordinator may have died, and knows no attempt that it did not decide."""
        pin = self._pins.get(transactional_id)
        if pin is not None:
            out.effects.append(AskVerdict(transactional_id, pin))
            self.arm(transactional_id, out.now_ms + VERDICT_WAIT_MS)


def is_about(pin: Pin, transaction: Transaction | None) -> bool:
    """Whether this is the open transaction that the group means."""
    return (
        transaction is not None
        and transaction.status is Status.ONGOING
        and not transaction.is_kept
        and transaction.identity == Identity(pin.producer_id, pin.epoch)
    )
