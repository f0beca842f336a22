"""Records of `__transaction_state` between the core's words and Kafka's bytes.

Records of a type we do not know (share the topic with a later version of Kafka) are passed over on load.
"""

from collections.abc import Callable, Iterable, Mapping
from struct import Struct
from typing import Any

from ottla.core.transactions import records as r
from ottla.wire.primitives import Malformed
from ottla.wire.state import transaction_state as w
from ottla.wire.state.coordinator_frame import decode_key, decode_value, encode_key, encode_value

_KEYS = {w.TransactionLogKey.API_KEY: w.TransactionLogKey}
_DECISION_KEY, _PIN_KEY = 20_001, 20_002
"""Types of our own, far above Kafka's, whose brokers and tools pass over what they do not know."""
_VERSION = 0
_INT16, _INT32 = Struct(">h"), Struct(">i")
_DECISION = Struct(">qq")
_MEMBER = Struct(">qh")
_OFFSET = Struct(">iq")
_PIN = Struct(">qqqh")


def encode(record: Any) -> tuple[bytes, bytes | None]:
    """Key and value of one record of a Decision."""
    key, value = _ENCODERS[type(record)](record)
    return key, value


def decode(key: bytes | memoryview, value: bytes | memoryview | None) -> r.Record | None:
    """The record, or None if it is none of ours. Raises Malformed."""
    if len(key) >= _INT16.size and _INT16.unpack_from(key)[0] in _OWN:
        read_key = _Reader(key)
        return _OWN[read_key.number(_INT16)](read_key, None if value is None else _Reader(value))
    decoded = decode_key(key, _KEYS)
    if decoded is None:
        return None
    transactional_id = decoded.transactional_id  # type: ignore[attr-defined]
    if value is None:
        return r.TransactionRecord(transactional_id, None)
    return _read_transaction(transactional_id, value)


def _write_transaction(record: r.TransactionRecord) -> tuple[bytes, bytes | None]:
    key = encode_key(w.TransactionLogKey(transactional_id=record.transactional_id))
    t = record.value
    if t is None:
        return key, None
    message = w.TransactionLogValue(
        producer_id=t.producer_id,
        previous_producer_id=t.previous_producer_id,
        next_producer_id=t.next_producer_id,
        producer_epoch=t.epoch,
        next_producer_epoch=t.next_epoch,
        transaction_timeout_ms=t.timeout_ms,
        transaction_status=t.status,
        transaction_partitions=None if t.status is r.Status.EMPTY else _write_partitions(t.partitions),
        transaction_last_update_timestamp_ms=t.updated_ms,
        transaction_start_timestamp_ms=t.started_ms,
        client_transaction_version=t.client_version,
    )
    return key, encode_value(message, record.version)


def _write_partitions(partitions: Iterable[r.TopicPartition]) -> list[w.PartitionsSchema]:
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(partition)
    return [w.PartitionsSchema(topic=topic, partition_ids=numbers) for topic, numbers in topics.items()]


def _read_transaction(transactional_id: str, value: bytes | memoryview) -> r.TransactionRecord:
    v = decode_value(value, w.TransactionLogValue)
    try:
        status = r.Status(v.transaction_status)
    except ValueError as error:
        raise Malformed(f"a transaction in state {v.transaction_status}") from error
    partitions = frozenset((p.topic, number) for p in v.transaction_partitions or () for number in p.partition_ids)
    transaction = r.Transaction(
        producer_id=v.producer_id,
        epoch=v.producer_epoch,
        timeout_ms=v.transaction_timeout_ms,
        status=status,
        partitions=partitions,
        updated_ms=v.transaction_last_update_timestamp_ms,
        started_ms=v.transaction_start_timestamp_ms,
        previous_producer_id=v.previous_producer_id,
        next_producer_id=v.next_producer_id,
        next_epoch=v.next_producer_epoch,
        client_version=v.client_transaction_version,
    )
    return r.TransactionRecord(transactional_id, transaction, _INT16.unpack_from(value)[0])


# Group commits: strings and bytes with an int32 of length, arrays with an int32 count.


def _text(text: str) -> bytes:
    return _sized(text.encode())


def _sized(data: bytes) -> bytes:
    return _INT32.pack(len(data)) + data


def _write_decision(record: r.DecisionRecord) -> tuple[bytes, bytes | None]:
    key = _INT16.pack(_DECISION_KEY) + _text(record.sink) + _text(record.query)
    v = record.value
    if v is None:
        return key, None
    parts = [_INT16.pack(_VERSION), _DECISION.pack(v.batch, v.attempt), _sized(v.digest), _INT32.pack(len(v.members))]
    parts += [_text(m.transactional_id) + _MEMBER.pack(m.producer_id, m.epoch) for m in v.members]
    parts.append(_INT32.pack(len(v.offsets)))
    parts += [_text(o.group_id) + _text(o.topic) + _OFFSET.pack(o.partition, o.offset) for o in v.offsets]
    return key, b"".join(parts)


def _write_pin(record: r.PinRecord) -> tuple[bytes, bytes | None]:
    key = _INT16.pack(_PIN_KEY) + _text(record.transactional_id)
    v = record.value
    if v is None:
        return key, None
    numbers = _PIN.pack(v.batch, v.attempt, v.producer_id, v.epoch)
    return key, _INT16.pack(_VERSION) + _text(v.sink) + _text(v.query) + numbers


class _Reader:
    __slots__ = ("_at", "_buf")

    def __init__(self, data: bytes | memoryview) -> None:
        self._buf = memoryview(data)
        self._at = 0

    def numbers(self, struct: Struct) -> tuple[int, ...]:
        if struct.size > len(self._buf) - self._at:
            raise Malformed("a record of a group commit is cut off")
        numbers: tuple[int, ...] = struct.unpack_from(self._buf, self._at)
        self._at += struct.size
        return numbers

    def number(self, struct: Struct) -> int:
        return self.numbers(struct)[0]

    def sized(self) -> bytes:
        size = self.number(_INT32)
        if not 0 <= size <= len(self._buf) - self._at:
            raise Malformed(f"a record of a group commit claims {size} bytes")
        self._at += size
        return bytes(self._buf[self._at - size : self._at])

    def text(self) -> str:
        try:
            return self.sized().decode()
        except UnicodeDecodeError as error:
            raise Malformed("a name in a group commit is not UTF-8") from error

    def count(self, least_size: int) -> int:
        count = self.number(_INT32)
        if not 0 <= count * least_size <= len(self._buf) - self._at:
            raise Malformed(f"a record of a group commit claims {count} elements")
        return count

    def check_version(self) -> None:
        version = self.number(_INT16)
        if version != _VERSION:
            raise Malformed(f"a record of a group commit has version {version}")

    def check_end(self) -> None:
        if self._at != len(self._buf):
            raise Malformed("a record of a group commit leaves bytes behind")


def _read_decision(key: _Reader, value: _Reader | None) -> r.Record:
    sink, query = key.text(), key.text()
    key.check_end()
    if value is None:
        return r.DecisionRecord(sink, query, None)
    value.check_version()
    batch, attempt = value.numbers(_DECISION)
    digest = value.sized()
    members = tuple(
        r.Member(value.text(), *value.numbers(_MEMBER)) for _ in range(value.count(_INT32.size + _MEMBER.size))
    )
    offsets = tuple(
        r.GroupOffset(value.text(), value.text(), *value.numbers(_OFFSET))
        for _ in range(value.count(2 * _INT32.size + _OFFSET.size))
    )
    value.check_end()
    return r.DecisionRecord(sink, query, r.GroupDecision(batch, digest, attempt, members, offsets))


def _read_pin(key: _Reader, value: _Reader | None) -> r.Record:
    transactional_id = key.text()
    key.check_end()
    if value is None:
        return r.PinRecord(transactional_id, None)
    value.check_version()
    sink, query = value.text(), value.text()
    pin = r.Pin(sink, query, *value.numbers(_PIN))
    value.check_end()
    return r.PinRecord(transactional_id, pin)


_ENCODERS: Mapping[type, Callable[[Any], tuple[bytes, bytes | None]]] = {
    r.TransactionRecord: _write_transaction,
    r.DecisionRecord: _write_decision,
    r.PinRecord: _write_pin,
}
_OWN: Mapping[int, Callable[[_Reader, _Reader | None], r.Record]] = {
    _DECISION_KEY: _read_decision,
    _PIN_KEY: _read_pin,
}
