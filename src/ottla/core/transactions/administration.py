"""ListTransactions and DescribeTransactions."""

from collections.abc import Iterable

from ottla.core.transactions.asks import DescribedTransaction, ListedTransaction, ListTransactions
from ottla.core.transactions.records import Status, Transaction

_NAMES = frozenset(status.kafka_name for status in Status)


def unknown_states(states: Iterable[str]) -> tuple[str, ...]:
    """Those filters that are no state's name."""
    return tuple(state for state in states if state not in _NAMES)


def is_wanted(transactional_id: str, transaction: Transaction, ask: ListTransactions, now_ms: int) -> bool:
    if ask.producer_ids and transaction.producer_id not in ask.producer_ids:
        return False
    if ask.states and transaction.status.kafka_name not in ask.states:
        return False
    if ask.duration_ms >= 0 and (transaction.started_ms < 0 or now_ms - transaction.started_ms <= ask.duration_ms):
        return False
    return ask.is_wanted(transactional_id)


def listed(transactional_id: str, transaction: Transaction) -> ListedTransaction:
    return ListedTransaction(transactional_id, transaction.producer_id, transaction.status.kafka_name)


def described(transactional_id: str, transaction: Transaction) -> DescribedTransaction:
    return DescribedTransaction(
        transactional_id=transactional_id,
        state=transaction.status.kafka_name,
        timeout_ms=transaction.timeout_ms,
        started_ms=transaction.started_ms,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.epoch,
        partitions=tuple(sorted(transaction.partitions)),
    )
