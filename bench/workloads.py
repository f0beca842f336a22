"""What is measured, each as a function that returns its figures. Clients run in processes of their own."""

import multiprocessing
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from bench.node import NodeProcess, running
from bench.rawclient import RawClient, produce_frame

Figures = dict[str, float]
Result = TypeVar("Result")
RECORD_BYTES = 1000


def in_process(work: Callable[..., Result], *args: Any) -> Result:
    """Run in a fresh process, so that the client's state is the same in every run; its result."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        return pool.apply(work, args)


def produce_with_librdkafka(bootstrap: str, topic: str, count: int, size: int) -> float:
    from confluent_kafka import Producer

    producer = Producer(
        {"bootstrap.servers": bootstrap, "linger.ms": 5, "queue.buffering.max.messages": 1_000_000, "acks": "all"}
    )
    value = os.urandom(size)
    failures: list[object] = []

    def on_delivery(error: object, _: object) -> None:
        if error is not None:
            failures.append(error)

    begun = time.monotonic()
    for number in range(count):
        while True:
            try:
                producer.produce(topic, value, on_delivery=on_delivery)
                break
            except BufferError:
                producer.poll(0.01)
        if number % 1000 == 0:
            producer.poll(0)
    producer.flush(120)
    if failures:
        raise RuntimeError(f"{len(failures)} records were not delivered, the first: {failures[0]}")
    return time.monotonic() - begun


def consume_with_librdkafka(bootstrap: str, topic: str, count: int) -> float:
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "bench", "enable.auto.commit": False, "check.crcs": False}
    )
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    begun, seen = time.monotonic(), 0
    while seen < count:
        messages = consumer.consume(10_000, timeout=30)
        if not messages:
            raise RuntimeError(f"{seen} of {count} records came within 30 s of silence")
        seen += len(messages)
    seconds = time.monotonic() - begun
    consumer.close()
    return seconds


def throughput(gigabytes: float) -> Figures:
    """1 kB records through librdkafka on one connection: processor time of the node per GB, and the rate."""
    count = int(gigabytes * 1e9 / RECORD_BYTES)
    with running() as node:
        client = RawClient(node.port)
        client.create_topic("bulk")
        client.close()
        before = node.cpu_seconds
        produced = in_process(produce_with_librdkafka, node.bootstrap, "bulk", count, RECORD_BYTES)
        between = node.cpu_seconds
        consumed = in_process(consume_with_librdkafka, node.bootstrap, "bulk", count)
        after = node.cpu_seconds
        return {
            "produce cpu s/GB": (between - before) / gigabytes,
            "consume cpu s/GB": (after - between) / gigabytes,
            "produce MB/s": gigabytes * 1000 / produced,
            "consume MB/s": gigabytes * 1000 / consumed,
            "memory after MB": node.memory_mb,
        }


def one_record_requests(count: int) -> Figures:
    """Produce requests of one record on one connection, pipelined and one by one: processor time of the node each."""
    with running() as node:
        client = RawClient(node.port)
        client.create_topic("single")
        frame = produce_frame("single", b"x" * 100, int(time.time() * 1000))
        client.pipeline(frame, 2000, 16)
        before, begun = node.cpu_seconds, time.monotonic()
        client.pipeline(frame, count, 16)
        between, middle = node.cpu_seconds, time.monotonic()
        client.pipeline(frame, count // 4, 1)
        after, ended = node.cpu_seconds, time.monotonic()
        client.close()
        return {
            "pipelined cpu us/request": (between - before) / count * 1e6,
            "pipelined requests/s": count / (middle - begun),
            "single cpu us/request": (after - between) / (count // 4) * 1e6,
            "single requests/s": count // 4 / (ended - middle),
        }


def start_and_idle(idle_seconds: float = 3.0) -> Figures:
    """From the command to the first acknowledged record in an empty directory; memory and processor time at rest."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="ottla-bench-") as directory:
        node = NodeProcess(Path(directory))
        begun = node.launch()
        try:
            node.wait_until_it_listens()
            client = RawClient(node.port)
            client.create_topic("first")
            assert client.produce(produce_frame("first", b"hello", int(time.time() * 1000))) == 0
            answered = time.monotonic()
            client.close()
            before = node.cpu_seconds
            time.sleep(idle_seconds)
            return {
                "start to first ack s": answered - begun,
                "idle memory MB": node.memory_mb,
                "idle cpu %": (node.cpu_seconds - before) / idle_seconds * 100,
            }
        finally:
            node.kill()


def restart_after_kill(gigabytes: float, partitions: int = 100) -> Figures:
    """SIGKILL with this much data that nobody flushed; then from the command to the next acknowledged record."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="ottla-bench-") as directory:
        node = NodeProcess(Path(directory))
        node.launch()
        node.wait_until_it_listens()
        client = RawClient(node.port)
        client.create_topic("much", partitions)
        client.close()
        count = int(gigabytes * 1e9 / RECORD_BYTES)
        in_process(produce_with_librdkafka, node.bootstrap, "much", count, RECORD_BYTES)
        node.kill()
        begun = node.launch()
        try:
            node.wait_until_it_listens()
            client = RawClient(node.port)
            assert client.produce(produce_frame("much", b"again", int(time.time() * 1000))) == 0
            answered = time.monotonic()
            client.close()
            return {"restart after kill s": answered - begun}
        finally:
            node.kill()


def fsync_per_ack(producers: Iterable[int], seconds: float = 2.0) -> Figures:
    """`flush.messages=1`: acknowledged records per second, by number of producers that share fsyncs."""
    figures = {}
    for number in producers:
        with running("log.flush.interval.messages=1") as node:
            client = RawClient(node.port)
            client.create_topic("durable")
            client.close()
            context = multiprocessing.get_context("fork")
            with context.Pool(1) as pool:
                figures[f"fsynced acks/s, {number} producers"] = pool.apply(_durable_rate, (node.port, number, seconds))
    return figures


def _durable_rate(port: int, number: int, seconds: float) -> float:
    import threading

    counts = [0] * number
    stop_at = time.monotonic() + seconds

    def produce(index: int) -> None:
        client = RawClient(port)
        frame = produce_frame("durable", b"x" * 100, int(time.time() * 1000))
        while time.monotonic() < stop_at:
            client.ask(frame)
            counts[index] += 1
        client.close()

    threads = [threading.Thread(target=produce, args=(index,)) for index in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / seconds
