"""What a partition, a record and a request cost: our own code over made-up clusters, in this process.

`python -m bench.plan --measure` writes what comes of it into `bench/plan/costs.json`. Processor time, medians of a few
rounds; about a minute with the nodes of `measuring_node`.
"""

import asyncio
import gc
import time
import tracemalloc
from collections.abc import Callable
from random import Random
from statistics import median
from typing import Any

from bench.groups import load, log_of_groups
from bench.one_request import connect, fetch_frame, turner
from bench.plan.rebalance import ConsumerMember, Coordinator, Group, Step
from bench.rawclient import produce_frame, request_frame
from ottla.core.metadata import brokers, topics
from ottla.core.metadata.asks import BrokerRegistration, Endpoint, NewTopic
from ottla.core.metadata.features import DEFAULT_FEATURES
from ottla.core.metadata.image import ClusterImage, ImageDelta
from ottla.core.metadata.records import BrokerRegistrationChangeRecord, FeatureLevelRecord, PartitionChangeRecord
from ottla.core.metadata.snapshot import image_records
from ottla.core.metadata.state import ControllerState
from ottla.runtime import quorum_codec as codec
from ottla.testing import AsyncBroker
from ottla.wire.batch_header import iter_headers
from ottla.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from ottla.wire.messages.index import ApiKey
from ottla.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.wire.primitives import Buffer

PARTITIONS, TOPICS, BROKERS, FACTOR = 20_000, 2_000, 12, 3
NAMED = 1_000
"""Partitions in one Fetch, and in the node whose partitions are led anew."""
_ROUNDS = 5
Figures = dict[str, float]


def seconds_of(work: Callable[[], object], rounds: int = _ROUNDS) -> float:
    """Processor time, the median; without the collector, whose turn falls on whoever comes."""
    took = []
    for _ in range(rounds):
        gc.collect()
        gc.disable()
        begun = time.process_time()
        work()
        took.append(time.process_time() - begun)
        gc.enable()
    return median(took)


def made_up_cluster(idle_broker: int) -> ControllerState:
    """All partitions on the first brokers; the one named last has none."""
    state = ControllerState(ClusterImage(), Random(1), "plan")
    for name, level in DEFAULT_FEATURES.items():
        state.image.apply(FeatureLevelRecord(name=name, feature_level=level))
    sessions = brokers.BrokerSessions(9_000)
    for number in range(1, BROKERS + 1):
        _join(state, sessions, number)
    each = PARTITIONS // TOPICS
    asks = [NewTopic(f"topic-{number:05}", each, FACTOR) for number in range(TOPICS)]
    for record in topics.create_topics(state, asks).records:
        state.image.apply(record)
    _join(state, sessions, idle_broker)
    return state


def _join(state: ControllerState, sessions: brokers.BrokerSessions, number: int) -> None:
    ask = BrokerRegistration(
        number,
        "plan",
        number.to_bytes(16, "big"),
        (Endpoint("PLAINTEXT", "broker.example.org", 9092),),
        log_dirs=(number.to_bytes(16, "big"),),
    )
    for record in brokers.register_broker(state, sessions, ask, number, 0).records:
        state.image.apply(record)
    unfenced = BrokerRegistrationChangeRecord(broker_id=number, broker_epoch=number, fenced=-1)
    state.image.apply(unfenced)


def metadata() -> Figures:
    """A broker is lost: deciding, encoding, decoding and applying; then the snapshot of everything."""
    idle = BROKERS + 1
    state = made_up_cluster(idle)

    def decide(broker: int) -> tuple[object, ...]:
        return brokers.fencing_records(state, state.image.brokers[broker])

    scan = seconds_of(lambda: decide(idle))
    records = decide(1)
    decided = seconds_of(lambda: decide(1))
    count = len(records)
    encoded = codec.metadata_batch(records, 0, 1, 0)
    header = next(iter_headers(encoded))[1]
    images = [state.image.copy() for _ in range(_ROUNDS * 2)]
    applied = seconds_of(lambda: _apply(images.pop(), records))
    followed = seconds_of(lambda: _apply(images.pop(), codec.records_in(encoded, header)))
    return {
        "scan_us": scan / PARTITIONS * 1e6,
        "decide_us": (decided - scan) / count * 1e6,
        "encode_us": seconds_of(lambda: codec.metadata_batch(records, 0, 1, 0)) / count * 1e6,
        "apply_us": applied / count * 1e6,
        "follow_change_us": followed / count * 1e6,
        "change_bytes": len(encoded) / count,
        **_snapshot(state.image),
    }


def _apply(image: ClusterImage, records: Any) -> ClusterImage:
    delta = ImageDelta()
    for record in records:
        image.apply(record, delta)
    return image


def _snapshot(image: ClusterImage) -> Figures:
    data = b"".join(codec.encode_snapshot(image_records(image), None, 1, 0))
    tracemalloc.start()
    kept = _apply(ClusterImage(), codec.decode_snapshot(data).records)
    gc.collect()
    grown = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert sum(len(topic.partitions) for topic in kept.topics_by_id.values()) == PARTITIONS
    loaded = seconds_of(lambda: _apply(ClusterImage(), codec.decode_snapshot(data).records), 3)
    return {
        "snapshot_partition_bytes": len(data) / PARTITIONS,
        "snapshot_load_us": loaded / PARTITIONS * 1e6,
        "image_partition_bytes": grown / PARTITIONS,
        "copy_us": seconds_of(image.copy) / PARTITIONS * 1e6,
        "metadata_partition_bytes": _metadata_bytes(image),
    }


def _metadata_bytes(image: ClusterImage) -> float:
    """Of one partition with three replicas, its share of the topic's name and id with it."""
    answers = []
    for topic in list(image.topics_by_id.values())[:100]:
        partitions = [
            MetadataResponsePartition(0, e.index, e.leader, e.leader_epoch, list(e.replicas), list(e.isr), [])
            for e in topic.partitions
        ]
        answers.append(MetadataResponseTopic(0, topic.name, topic.id, False, partitions))
    out = Buffer()
    MetadataResponse(topics=answers).encode(out, 12)
    return len(out) / sum(len(answer.partitions) for answer in answers)


def _fetch_of(count: int, topic: str) -> FetchRequest:
    places = [FetchPartition(number, -1, 0, -1, -1, 1 << 20) for number in range(count)]
    return FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, topics=[FetchTopic(topic, partitions=places)])


async def requests() -> Figures:
    """On a real node: fetches of one partition and of many, metadata of everything, and taking the lead."""
    async with AsyncBroker({"single": 1, "many": NAMED}) as broker:
        node = broker._running()
        connection, client = connect(node)

        def us(frame: bytes, times: int) -> float:
            turn = turner(connection, client, frame)
            turn(times // 10)
            return seconds_of(lambda: turn(times)) / times * 1e6

        produce = produce_frame("single", b"x" * 100, int(time.time() * 1000))
        turner(connection, client, produce)(100)
        one = us(fetch_frame("single", 99), 2_000)
        many = us(request_frame(ApiKey.FETCH, 12, _fetch_of(NAMED, "many"), True), 50)
        everything = us(request_frame(ApiKey.METADATA, 12, MetadataRequest(None), True), 50)
        small = us(request_frame(ApiKey.METADATA, 12, MetadataRequest([]), True), 500)
        found = {
            "fetch_us": one,
            "fetch_partition_us": (many - one) / NAMED,
            "metadata_partition_us": (everything - small) / (NAMED + 1),
            "lead_us": _lead_anew(node),
            "follower_batch_us": _follow(node),
        }
        connection.close()
        client.close()
    return found | {"follow_partition_us": _follower_partition_us()}


def _lead_anew(node: Any) -> float:
    """Each partition in a new epoch, as after an election."""
    image = node.controller.image.copy()
    topic = image.topics_by_name["many"]
    delta = ImageDelta()
    for number in range(NAMED):
        record = PartitionChangeRecord(partition_id=number, topic_id=topic.id, leader=topic.partitions[number].leader)
        image.apply(record, delta)
    return seconds_of(lambda: node.replicas.on_image(image, delta), 1) / NAMED * 1e6


def _follow(node: Any) -> float:
    """Small batches, appended as a follower does it."""
    log = node.replicas.find("many", 0).log
    frames = []
    for number in range(2_000):
        batch = codec.metadata_batch([FeatureLevelRecord(name="f", feature_level=1)], log.end_offset + number, 1, 0)
        frames.append(batch)
    return seconds_of(lambda: [log.append_as_follower(frame, 0) for frame in frames], 1) / len(frames) * 1e6


def _follower_partition_us() -> float:
    """A fetch written and its answer read, by whoever asks for many partitions."""
    answer = FetchResponse(
        responses=[
            FetchableTopicResponse("many", partitions=[PartitionData(n, 0, 1, records=b"") for n in range(NAMED)])
        ]
    )
    out = Buffer()
    answer.encode(out, 12)
    data = memoryview(bytes(out))

    def both() -> None:
        request_frame(ApiKey.FETCH, 12, _fetch_of(NAMED, "many"), True)
        FetchResponse.decode(data, 0, 12)

    return seconds_of(both) / NAMED * 1e6


class _Timed(Coordinator):
    """The coordinator with a stopwatch: what the real one takes in real time."""

    def watch(self) -> "_Timed":
        self.calls = self.records = 0
        self.seconds = 0.0
        return self

    def decide(self, decide: Callable[[], Any], answer: Callable[[Any], None] = lambda _: None) -> None:
        def timed() -> Any:
            begun = time.process_time()
            try:
                decision = decide()
            finally:
                self.seconds += time.process_time() - begun
                self.calls += 1
            self.records += len(decision.records)
            return decision

        super().decide(timed, answer)


def groups(costs: Any) -> Figures:
    """Loading offsets, a heartbeat that changes nothing, and what a record of a rebalance costs to decide."""
    logs = log_of_groups()
    count = sum(len(rows) for rows in logs)
    loading = seconds_of(lambda: [load(rows) for rows in logs], 3)
    quiet, joining = _quiet_and_joining(costs, 100)
    return {
        "group_load_us": loading / count * 1e6,
        "group_call_us": quiet,
        "group_record_us": joining,
    }


def _quiet_and_joining(costs: Any, members: int) -> tuple[float, float]:
    group = Group(costs, "consumer", members)
    coordinator = group.coordinator
    coordinator.__class__ = _Timed
    assert isinstance(coordinator, _Timed)
    coordinator.watch()
    step: Step = group.all_come()
    assert step.seconds > 0 and all(isinstance(member, ConsumerMember) for member in group.members)
    joining, calls, records = coordinator.seconds, coordinator.calls, coordinator.records
    coordinator.watch()
    group.world.run(group.world.now + 60)
    quiet = coordinator.seconds / coordinator.calls * 1e6
    return quiet, (joining * 1e6 - calls * quiet) / records


def everything(costs: Any) -> Figures:
    return metadata() | asyncio.run(requests()) | groups(costs)
