"""What transactions cost: throughput beside none, as a ratio, and how long a commit takes."""

import os
import time
from statistics import median
from typing import Any

from bench.group_load import find_coordinator
from bench.node import running
from bench.rawclient import RawClient, request_frame
from bench.workloads import RECORD_BYTES, Figures, in_process
from ottla.base.errors import ErrorCode
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.wire.messages.index import ApiKey
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

LENGTHS = {"1 s": 1.0, "100 ms": 0.1}
_TOPIC = "transactions"
_TURN_SECONDS = 3.0
_QUEUED_RECORDS = 5_000
"""A commit waits until all of them are acknowledged, and meanwhile this process produces nothing."""
_KEEPING_LITTLE = (
    "log.retention.bytes=536870912",
    "log.segment.bytes=268435456",
    "log.retention.check.interval.ms=1000",
    "log.segment.delete.delay.ms=0",
)
"""Minutes at full speed would fill the disk."""
_ADD_VERSION, _INIT_VERSION, _END_VERSION = 3, 4, 4


def beside_none(rounds: int) -> Figures:
    """Records per second with transactions of each length, divided by those without: in turns, by one process."""
    with running(*_KEEPING_LITTLE) as node:
        client = RawClient(node.port)
        client.create_topic(_TOPIC)
        client.close()
        rates = in_process(rates_with_librdkafka, node.bootstrap, rounds)
    figures = {"records/s without transactions": median(rates["none"])}
    for name in LENGTHS:
        pairs = zip(rates[name], rates["none"], strict=True)
        figures[f"transactions of {name} beside none"] = median(with_ / without for with_, without in pairs)
    return figures


def rates_with_librdkafka(bootstrap: str, rounds: int) -> dict[str, list[float]]:
    """Records per second of producers that take turns, without transactions ("none") and with those of each length.

    All are idempotent, as transactions demand: that alone doubles what librdkafka computes per record.
    """
    from confluent_kafka import Producer

    common: dict[str, object] = {
        "bootstrap.servers": bootstrap,
        "linger.ms": 5,
        "enable.idempotence": True,
        "queue.buffering.max.messages": _QUEUED_RECORDS,
    }
    producers = {"none": Producer(common)}
    for name in LENGTHS:
        producers[name] = Producer({**common, "transactional.id": name})
        producers[name].init_transactions(30)
    value = os.urandom(RECORD_BYTES)
    rates: dict[str, list[float]] = {name: [] for name in producers}
    for turn in range(rounds + 1):
        for name, producer in producers.items():
            count, begun = 0, time.monotonic()
            until = begun + _TURN_SECONDS
            while (now := time.monotonic()) < until:
                count += _produce(producer, value, min(until, now + LENGTHS.get(name, _TURN_SECONDS)), name in LENGTHS)
            if turn:  # the first one is for warming up
                rates[name].append(count / (time.monotonic() - begun))
    return rates


def _produce(producer: Any, value: bytes, until: float, in_transaction: bool) -> int:
    """One transaction, or everything at once; how many records."""
    count = 0
    if in_transaction:
        producer.begin_transaction()
    while time.monotonic() < until:
        for _ in range(100):
            while True:
                try:
                    producer.produce(_TOPIC, value)
                    break
                except BufferError:
                    producer.poll(0.001)
            count += 1
        producer.poll(0)
    if in_transaction:
        producer.commit_transaction(60)
    elif producer.flush(60):
        raise RuntimeError("not all records were delivered")
    return count


def commits(count: int) -> Figures:
    """How long a commit takes: of nothing, asked for on a socket, and of one record with librdkafka."""
    with running() as node:
        client = RawClient(node.port)
        client.create_topic(_TOPIC)
        empty = _commit_empty(client, count)
        client.close()
        one = in_process(commit_with_librdkafka, node.bootstrap, count)
    return {"empty transaction: commit p50 ms": median(empty) * 1000, "one record: commit p50 ms": one * 1000}


def _commit_empty(client: RawClient, count: int) -> list[float]:
    """A partition has joined and gets its marker, but no record."""
    name = "empty"
    find_coordinator(client, name, kind=1)
    init = request_frame(ApiKey.INIT_PRODUCER_ID, _INIT_VERSION, InitProducerIdRequest(name, 60_000, -1, -1), True)
    while True:
        producer, _ = InitProducerIdResponse.decode(client.ask(init)[1:], 0, _INIT_VERSION)
        if producer.error_code == ErrorCode.NONE:
            break
        time.sleep(0.01)
    who = name, producer.producer_id, producer.producer_epoch
    topics = [AddPartitionsToTxnTopic(_TOPIC, [0])]
    add = request_frame(ApiKey.ADD_PARTITIONS_TO_TXN, _ADD_VERSION, AddPartitionsToTxnRequest(*who, topics), True)
    end = request_frame(ApiKey.END_TXN, _END_VERSION, EndTxnRequest(*who, committed=True), True)
    found: list[float] = []
    while len(found) < count:
        added, _ = AddPartitionsToTxnResponse.decode(client.ask(add)[1:], 0, _ADD_VERSION)
        code = added.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
        if code == ErrorCode.CONCURRENT_TRANSACTIONS:
            continue
        begun = time.perf_counter()
        ended, _ = EndTxnResponse.decode(client.ask(end)[1:], 0, _END_VERSION)
        found.append(time.perf_counter() - begun)
        assert (code, ended.error_code) == (0, 0)
    return found


def commit_with_librdkafka(bootstrap: str, count: int) -> float:
    """The median of `commit_transaction`, which also waits until the record is acknowledged."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "transactional.id": "one"})
    producer.init_transactions(30)
    found: list[float] = []
    for _ in range(count):
        producer.begin_transaction()
        producer.produce(_TOPIC, b"x")
        begun = time.perf_counter()
        producer.commit_transaction(30)
        found.append(time.perf_counter() - begun)
    return median(found)
