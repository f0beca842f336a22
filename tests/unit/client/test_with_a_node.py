"""The client and a node of ours: what is written is read, offsets are found, transactions end as they should."""

import asyncio
import os
import time
from typing import Any

import pytest

from ottla.base.types import TopicName, TopicPartition
from ottla.client import transactions
from ottla.client.blocking import LoopThread
from ottla.client.cluster import Cluster
from ottla.client.failures import Fenced, NoSuchTopic, Unreachable
from ottla.client.fetch import Appetite, Fetched, OutOfRange, data_batches, fetch
from ottla.client.group_commit import (
    CommitRefused,
    GroupCommit,
    MembersLost,
    commit_group,
    describe_group_commit,
    supports_group_commit,
)
from ottla.client.offsets import (
    EARLIEST,
    LATEST,
    Isolation,
    commit_offsets,
    fetch_offsets,
    latest_offsets,
    list_offsets,
)
from ottla.client.produce import BatchSender
from ottla.client.transactions import TransactionalProducer
from ottla.testing import Broker
from ottla.wire.batch import ProducerStamp, decode_records, encode_batch, new_records
from ottla.wire.messages.init_producer_id import InitProducerIdRequest

from .conftest import Run

TAIL = Appetite(wait_ms_max=2_000)


def place(topic: str, partition: int = 0) -> TopicPartition:
    return TopicPartition(TopicName(topic), partition)


def batch_of(values: list[bytes], stamp: ProducerStamp) -> bytes:
    return encode_batch(new_records([(None, value) for value in values], int(time.time() * 1000)), producer=stamp)


def values_in(fetched: object) -> list[bytes]:
    assert isinstance(fetched, Fetched)
    return [
        record.value or b""
        for at, header in data_batches(fetched)
        for record in decode_records(fetched.records[at : at + header.size])
    ]


async def send(cluster: Cluster, values: dict[TopicPartition, list[bytes]]) -> None:
    """Idempotently, one batch a value."""
    answer = await (await cluster.anyone()).ask(InitProducerIdRequest(None, 0), cluster.deadline())
    sender = BatchSender(cluster)
    for where, contents in values.items():
        for sequence, value in enumerate(contents):
            stamp = ProducerStamp(answer.producer_id, answer.producer_epoch, sequence)
            await sender.submit(where, batch_of([value], stamp))
    await sender.flush()
    await sender.close()


async def read(cluster: Cluster, where: TopicPartition, isolation: Isolation = Isolation.READ_COMMITTED) -> list[bytes]:
    outcomes = await fetch(cluster, {where: 0}, Appetite(wait_ms_max=0, isolation=isolation))
    return values_in(outcomes[where])


def test_what_is_written_to_many_partitions_is_read_again_in_order(run: Run[None], node: Broker, topic: str) -> None:
    async def play() -> None:
        async with Cluster.at(node.bootstrap) as cluster:
            places = await cluster.partitions([topic])
            assert places == [place(topic, index) for index in range(3)]
            values = {where: [b"%d-%d" % (where.partition, at) for at in range(40)] for where in places}
            await send(cluster, values)
            outcomes = await fetch(cluster, dict.fromkeys(places, 0))
            assert {where: values_in(one) for where, one in outcomes.items()} == values
            one = outcomes[places[0]]
            assert isinstance(one, Fetched)
            assert (one.high_watermark, one.last_stable_offset, one.log_start) == (40, 40, 0)

    run(play())


def test_a_long_poll_ends_when_there_is_something(run: Run[None], node: Broker, topic: str) -> None:
    async def play() -> None:
        async with Cluster.at(node.bootstrap) as cluster:
            where = place(topic)
            tail = asyncio.create_task(fetch(cluster, {where: 0}, Appetite(wait_ms_max=30_000)))
            await asyncio.sleep(0.05)
            assert not tail.done()
            await send(cluster, {where: [b"news"]})
            assert values_in((await asyncio.wait_for(tail, 10))[where]) == [b"news"]
            empty = await fetch(cluster, {where: 1}, Appetite(wait_ms_max=10))
            assert values_in(empty[where]) == []

    run(play())


def test_an_offset_that_is_not_there_is_told_with_what_is(run: Run[None], node: Broker, topic: str) -> None:
    async def play() -> None:
        async with Cluster.at(node.bootstrap) as cluster:
            where = place(topic)
            await send(cluster, {where: [b"a", b"b"]})
            outcomes = await fetch(cluster, {where: 99, place(topic, 1): 0}, Appetite(wait_ms_max=0))
            failure = outcomes[where]
            assert isinstance(failure, OutOfRange)
            assert (failure.log_start, failure.high_watermark) == (0, 2)
            assert isinstance(outcomes[place(topic, 1)], Fetched)

    run(play())


def test_offsets_are_found_by_end_and_by_time(run: Run[None], node: Broker, topic: str) -> None:
    async def play() -> None:
        async with Cluster.at(node.bootstrap) as cluster:
            where = place(topic)
            await send(cluster, {where: [b"a", b"b", b"c"]})
            for asked, offset in ((EARLIEST, 0), (LATEST, 3), (1, 0), (2**52, -1)):
                found = await list_offsets(cluster, {where: asked})
                assert found[where].offset == offset

    run(play())


def test_offsets_of_a_group_are_kept_without_membership(run: Run[None], node: Broker, topic: str) -> None:
    async def play() -> None:
        async with Cluster.at(node.bootstrap) as cluster:
            assert await fetch_offsets(cluster, topic) == {}
            await commit_offsets(cluster, topic, {place(topic): 7, place(topic, 2): 9}, "as of now")
            kept = await fetch_offsets(cluster, topic)
            assert {where: tuple(one) for where, one in kept.items()} == {
                place(topic): (7, "as of now"),
                place(topic, 2): (9, "as of now"),
            }
            assert list(await fetch_offsets(cluster, topic, [place(topic, 1), place(topic, 2)])) == [place(topic, 2)]

    run(play())


def test_topics_are_found_by_pattern_and_missed_in_time(run: Run[None], node: Broker, topic: str) -> None:
    async def play() -> None:
        async with Cluster.at(node.bootstrap) as cluster:
            assert topic in await cluster.topics_like("test-topics-are-f.*")
            assert await cluster.topics_like("test-topics-are") == {}
        settings = Cluster.at(node.bootstrap).settings
        from dataclasses import replace

        async with Cluster(replace(settings, absence_s=0.2)) as cluster:
            with pytest.raises(NoSuchTopic, match="nothing-here"):
                await cluster.topics([topic, "nothing-here"])

    run(play())


def test_a_cluster_of_which_nobody_answers_is_unreachable(run: Run[None]) -> None:
    async def play() -> None:
        async with Cluster.at("127.0.0.1:1,127.0.0.1:2", default_api_timeout_ms=300) as cluster:
            with pytest.raises(Unreachable, match=r"127\.0\.0\.1:1.*127\.0\.0\.1:2"):
                await latest_offsets(cluster, [place("any")])

    run(play())


@pytest.fixture(params=[False, True], ids=["classic", "version 2"])
def generation(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    if not request.param:
        monkeypatch.setattr(transactions, "_FEATURE_LEVEL", 99)
    return bool(request.param)


async def write(producer: TransactionalProducer, where: TopicPartition, *values: bytes) -> None:
    for value in values:
        await producer.submit(where, batch_of([value], producer.stamp(where, 1)))


def test_a_transaction_counts_when_it_is_committed_and_never_when_it_is_aborted(
    run: Run[None], node: Broker, topic: str, generation: bool
) -> None:
    async def play() -> None:
        async with Cluster.at(node.bootstrap) as cluster:
            producer = TransactionalProducer(cluster, topic)
            await producer.init()
            assert producer.joins_by_itself is generation
            for round_ in range(3):
                await write(producer, place(topic), b"%d" % round_, b"again")
                await write(producer, place(topic, 1), b"%d" % round_)
                await producer.send_offsets(topic, {place(topic, 2): round_})
                await producer.flush()
                before = await read(cluster, place(topic))
                assert b"%d" % round_ not in before
                await producer.commit()
            await producer.commit()  # of nothing
            other = TransactionalProducer(cluster, topic + "-2")
            await other.init()
            await write(other, place(topic, 1), b"never")
            await other.send_offsets(topic, {place(topic, 2): 99})
            await other.abort()
            await write(other, place(topic, 2), b"after")
            await other.commit()
            assert await read(cluster, place(topic)) == [b"0", b"again", b"1", b"again", b"2", b"again"]
            assert await read(cluster, place(topic, 1)) == [b"0", b"1", b"2"]
            assert await read(cluster, place(topic, 2)) == [b"after"]
            assert (await fetch_offsets(cluster, topic))[place(topic, 2)].offset == 2

    run(play())


def test_a_new_producer_of_the_same_id_fences_the_old_one(
    run: Run[None], node: Broker, topic: str, generation: bool
) -> None:
    async def play() -> None:
        async with Cluster.at(node.bootstrap) as cluster:
            old, new = (TransactionalProducer(cluster, topic) for _ in range(2))
            await old.init()
            await write(old, place(topic), b"old")
            await old.flush()
            await new.init()
            with pytest.raises(Fenced):
                await old.commit()
            await write(new, place(topic), b"new")
            await new.commit()
            outcomes = await fetch(cluster, {place(topic): 0}, Appetite(wait_ms_max=0))
            fetched = outcomes[place(topic)]
            assert isinstance(fetched, Fetched)
            assert fetched.last_stable_offset == fetched.high_watermark == 4

    run(play())


def test_a_prepared_transaction_is_taken_over_and_committed(run: Run[None], node: Broker, topic: str) -> None:
    async def play() -> None:
        async with Cluster.at(node.bootstrap) as cluster:
            first = TransactionalProducer(cluster, topic, is_two_phase=True)
            await first.init()
            await write(first, place(topic), b"prepared")
            await first.flush()
            prepared = first.identity
            second = TransactionalProducer(cluster, topic, is_two_phase=True)
            await second.init(keep_prepared=True)
            assert second.kept == prepared
            with pytest.raises(RuntimeError, match="end it first"):
                await write(second, place(topic), b"too early")
            await second.commit()
            assert await read(cluster, place(topic)) == [b"prepared"]

    run(play())


async def members(cluster: Cluster, topic: str, batch: int, count: int = 2) -> list[TransactionalProducer]:
    producers = [TransactionalProducer(cluster, f"{topic}-{batch}-{at}") for at in range(count)]
    for at, producer in enumerate(producers):
        await producer.init()
        await write(producer, place(topic, at), b"%d" % batch)
        await producer.flush()
    return producers


def commit_of(topic: str, batch: int, digest: bytes, producers: list[TransactionalProducer]) -> GroupCommit:
    return GroupCommit(
        sink=topic,
        query="q",
        batch=batch,
        digest=digest,
        members=[producer.identity for producer in producers],
        offsets={topic: {place(topic, 2): 10 * batch + 10}},
    )


async def until_complete(cluster: Cluster, topic: str) -> None:
    async for _ in cluster.deadline(10).attempts(cluster.backoff):
        if (await describe_group_commit(cluster, topic, "q")).is_complete:
            return
    raise AssertionError("not all members and offsets were told")


def test_a_batch_of_many_producers_is_committed_once(run: Run[None], node: Broker, topic: str) -> None:
    async def play() -> None:
        async with Cluster.at(node.bootstrap) as cluster:
            assert await supports_group_commit(cluster)
            assert (await describe_group_commit(cluster, topic, "q")).batch == -1
            for batch in range(3):
                is_replay = await commit_group(
                    cluster, commit_of(topic, batch, b"d", await members(cluster, topic, batch))
                )
                assert not is_replay
            again = await members(cluster, topic, 2)
            assert await commit_group(cluster, commit_of(topic, 2, b"d", again))
            last = await describe_group_commit(cluster, topic, "q")
            assert (last.batch, last.digest) == (2, b"d")
            with pytest.raises(CommitRefused, match="other contents"):
                await commit_group(cluster, commit_of(topic, 2, b"other", await members(cluster, topic, 2)))
            with pytest.raises(CommitRefused, match="set back"):
                await commit_group(cluster, commit_of(topic, 1, b"d", await members(cluster, topic, 1)))
            gone = await members(cluster, topic, 3)
            await gone[0].abort()
            with pytest.raises(MembersLost):
                await commit_group(cluster, commit_of(topic, 3, b"d", gone))
            # Members and offsets follow the decision; when the next batch may be decided, all have.
            await until_complete(cluster, topic)
            assert (await fetch_offsets(cluster, topic))[place(topic, 2)].offset == 30
            for partition in range(2):
                assert await read(cluster, place(topic, partition)) == [b"0", b"1", b"2"]

    run(play())


def test_code_that_cannot_await_has_a_loop_in_a_thread_also_after_a_fork(node: Broker, topic: str) -> None:
    def newest(loop: LoopThread) -> int:
        async def ask() -> int:
            async with Cluster.at(node.bootstrap) as cluster:
                return (await latest_offsets(cluster, [place(topic)]))[place(topic)]

        return loop.run(ask())

    with LoopThread() as loop:
        assert newest(loop) == 0
        cluster = Cluster.at(node.bootstrap)
        pid = os.fork()
        if pid == 0:
            try:
                is_fine = newest(loop) == 0
                with pytest.raises(RuntimeError, match="fork"):
                    loop.run(cluster.anyone())
                os._exit(0 if is_fine else 1)
            finally:
                os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert newest(loop) == 0
        with pytest.raises(ZeroDivisionError):
            loop.run(_fail())


async def _fail() -> Any:
    return 1 / 0
