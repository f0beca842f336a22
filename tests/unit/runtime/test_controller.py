import asyncio
import shutil
import time
from pathlib import Path
from random import Random

import pytest

from ottla.base.errors import ErrorCode, Refused
from ottla.base.limits import METADATA_RECORDS_PER_BATCH_MAX
from ottla.base.types import uuid_text
from ottla.core.metadata.asks import (
    Assignment,
    BrokerHeartbeat,
    ConfigChange,
    ConfigEdit,
    FeatureUpdate,
    NewPartitions,
    NewTopic,
    TopicRef,
)
from ottla.core.metadata.image import ClusterImage, ImageDelta
from ottla.core.metadata.snapshot import image_records
from ottla.runtime.controller import Controller
from tests.unit.runtime.controllers import Trio, fail, join, place, run, running, until
from tests.unit.runtime.faulty_files import Fate, FaultyFiles

APACHE = Path(__file__).parents[2] / "golden" / "kafka"
"""A directory that Apache Kafka wrote."""


def facts(image: ClusterImage) -> dict[str, object]:
    """Everything but the brokers and the partitions' epochs, which a restart may change."""
    return {
        "topics": {name: (topic.id, len(topic.partitions)) for name, topic in image.topics_by_name.items()},
        "configs": image.configs,
        "features": image.features,
        "producer ids": image.next_producer_id,
    }


def test_a_new_directory_becomes_a_cluster_that_leads_itself(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as controller:
            assert controller.is_leader and controller.leader_id == 1 and controller.epoch == 1
            assert controller.image.features["metadata.version"] == 25
            status = controller.quorum_status()
            assert (status.leader_id, status.epoch) == (1, 1)
            assert [replica.end_offset for replica in status.replicas] == [status.high_watermark]

    run(main())
    names = {path.name for path in (tmp_path / "__cluster_metadata-0").iterdir()}
    assert {"quorum-state", "partition.metadata", "00000000000000000000-0000000000.checkpoint"} <= names
    told = (tmp_path / "__cluster_metadata-0" / "partition.metadata").read_text()
    assert told == "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ"


def test_a_restart_brings_everything_back(tmp_path: Path) -> None:
    before: dict[str, object] = {}

    async def first() -> None:
        async with running(tmp_path) as controller:
            epoch = controller.image.brokers[1].epoch
            replies = await controller.create_topics(
                [NewTopic("kept", 3, configs=(("retention.ms", "7"),)), NewTopic("gone"), NewTopic("grown")]
            )
            assert [reply.error for reply in replies] == [0, 0, 0]
            await controller.create_partitions([NewPartitions("grown", 4)])
            await controller.delete_topics([TopicRef("gone")])
            edits = (ConfigEdit("segment.bytes", 0, "2097152"),)
            await controller.incremental_alter_configs([ConfigChange(2, "grown", edits)])
            assert (await controller.allocate_producer_ids(1, epoch)).first == 0
            await controller.update_features([FeatureUpdate("group.version", 0, upgrade_type=2)])
            before.update(facts(controller.image))

    async def again() -> None:
        async with running(tmp_path) as controller:
            assert facts(controller.image) == before
            assert sorted(controller.image.topics_by_name) == ["grown", "kept"]
            block = await controller.allocate_producer_ids(1, controller.image.brokers[1].epoch)
            assert block.first == 1000
            before.update(facts(controller.image))

    run(first())
    run(again())
    run_checked_again = facts_after_restart(tmp_path)
    assert run_checked_again == before


def facts_after_restart(directory: Path) -> dict[str, object]:
    found: dict[str, object] = {}

    async def main() -> None:
        controller = Controller(place(directory), {}, fail)
        await controller.start()
        found.update(facts(controller.image))
        await controller.stop()

    run(main())
    return found


def test_the_image_is_there_before_the_answer(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as controller:
            seen: list[ImageDelta] = []
            controller.subscribe(lambda image, delta: seen.append(delta))
            assert [delta.whole for delta in seen] == [True]
            (reply,) = await controller.create_topics([NewTopic("t", 2)])
            assert controller.image.topics_by_name["t"].id == reply.id
            assert seen[-1].topics_created.keys() == {reply.id} and seen[-1].partitions == {reply.id: {0, 1}}
            (deleted,) = await controller.delete_topics([TopicRef("t")])
            assert deleted.error == ErrorCode.NONE and seen[-1].topics_deleted.keys() == {reply.id}

    run(main())


def test_commands_are_decided_on_what_is_not_yet_committed(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as controller:
            first, second = await asyncio.gather(
                controller.create_topics([NewTopic("t")]), controller.create_topics([NewTopic("t")])
            )
            assert (first[0].error, second[0].error) == (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)

    run(main())


def test_a_refusal_is_told_only_once_its_reason_is_committed(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as controller:
            making = asyncio.ensure_future(controller.create_topics([NewTopic("t")]))
            await asyncio.sleep(0)
            (reply,) = await controller.create_topics([NewTopic("t")])
            assert reply.error == ErrorCode.TOPIC_ALREADY_EXISTS
            assert "t" in controller.image.topics_by_name
            await making

    run(main())


def test_many_commands_share_an_fsync(tmp_path: Path) -> None:
    fate = Fate()

    async def main() -> None:
        async with running(tmp_path, files=FaultyFiles(fate)) as controller:
            before = fate.syncs
            await asyncio.gather(*(controller.create_topics([NewTopic(f"t{at}")]) for at in range(100)))
            assert fate.syncs - before <= 3
            assert len(controller.image.topics_by_name) == 100

    run(main())


def test_what_needs_more_than_one_batch_happens_whole_or_not_at_all(tmp_path: Path) -> None:
    count = METADATA_RECORDS_PER_BATCH_MAX

    async def main() -> None:
        async with running(tmp_path) as controller:
            (reply,) = await controller.create_topics([NewTopic("wide", count)])
            assert reply.error == ErrorCode.NONE
            assert len(controller.image.topics_by_name["wide"].partitions) == count
            assert not controller.image.is_in_transaction

    run(main())
    log = tmp_path / "__cluster_metadata-0" / "00000000000000000000.log"
    whole = log.read_bytes()
    # The end of the transaction is lost: the last batches are taken off until the wide topic is cut in the middle.
    log.write_bytes(whole[: len(whole) // 2])

    async def cut() -> None:
        async with running(tmp_path) as controller:
            assert "wide" not in controller.image.topics_by_name and not controller.image.is_in_transaction
            assert (await controller.create_topics([NewTopic("wide", 2)]))[0].error == ErrorCode.NONE

    run(cut())
    after = facts_after_restart(tmp_path)["topics"]
    assert isinstance(after, dict) and after["wide"][1] == 2


def test_snapshots_take_the_place_of_the_log(tmp_path: Path) -> None:
    before: dict[str, object] = {}

    async def main() -> None:
        async with running(tmp_path) as controller:
            for at in range(90):
                await controller.create_topics([NewTopic(f"t{at}", configs=(("flush.ms", str(at)),))])
                if at % 30 == 10:
                    await snapshot(controller)
            before.update(facts(controller.image))

    run(main())
    directory = tmp_path / "__cluster_metadata-0"
    snapshots = sorted(path.name for path in directory.glob("*.checkpoint"))
    segments = sorted(path.name for path in directory.glob("*.log"))
    assert len(snapshots) == 2 and not list(directory.glob("*.part")) and not list(directory.glob("*.deleted"))
    assert 0 < int(segments[0][:20]) <= int(snapshots[0][:20])
    assert facts_after_restart(tmp_path) == before


def test_a_snapshot_is_kept_when_the_log_has_grown_enough(tmp_path: Path) -> None:
    directory = tmp_path / "__cluster_metadata-0"

    async def main() -> None:
        async with running(tmp_path, {"metadata.log.max.record.bytes.between.snapshots": "2000"}) as controller:
            await controller.create_topics([NewTopic("small")])
            assert len(list(directory.glob("*.checkpoint"))) == 1
            await controller.create_topics([NewTopic("large", 50)])
            while len(list(directory.glob("*.checkpoint"))) == 1:  # noqa: ASYNC110 (a directory tells nobody)
                await asyncio.sleep(0.002)

    run(main())
    assert len(list(directory.glob("*.checkpoint"))) == 2


def test_a_snapshot_holds_the_image_of_its_offset(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as controller:
            await controller.create_topics([NewTopic("before")])
            task = controller.keep_snapshot()
            assert task is not None
            await controller.create_topics([NewTopic("after")])
            await task
            assert controller.keep_snapshot() is not None

    run(main())
    topics = facts_after_restart(tmp_path)["topics"]
    assert isinstance(topics, dict) and sorted(topics) == ["after", "before"]


def test_a_broker_without_heartbeats_is_fenced(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path, broker_session_ms=60) as controller:
            await until(controller, lambda image: image.brokers[1].fenced)
            epoch = controller.image.brokers[1].epoch
            await controller.broker_heartbeat(BrokerHeartbeat(1, epoch, controller.metadata_offset))
            assert not controller.image.brokers[1].fenced
            await until(controller, lambda image: image.brokers[1].fenced)

    run(main())


def test_a_broker_whose_heartbeats_wait_behind_a_busy_loop_is_not_fenced(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path, broker_session_ms=300) as controller:
            epoch, changes = controller.image.brokers[1].epoch, list[ImageDelta]()
            controller.subscribe(lambda _, delta: changes.append(delta))
            for _ in range(3):
                beating = asyncio.create_task(beat_later(controller, epoch))
                await asyncio.sleep(0)
                be_busy()
                await beating
            assert not any(delta.brokers for delta in changes)

    async def beat_later(controller: Controller, epoch: int) -> None:
        await asyncio.sleep(0.05)
        await controller.broker_heartbeat(BrokerHeartbeat(1, epoch, controller.metadata_offset))
        await asyncio.sleep(0.05)

    def be_busy() -> None:  # for longer than the session, and not much longer
        time.sleep(0.32)

    run(main())


def test_a_restarted_broker_leads_its_partitions_again(tmp_path: Path) -> None:
    async def main(expected_epoch: int) -> None:
        async with running(tmp_path) as controller:
            if "t" not in controller.image.topics_by_name:
                await controller.create_topics([NewTopic("t", assignments=(Assignment(0, (1,)),))])
            entry = controller.image.partition("t", 0)
            assert entry is not None and (entry.leader, entry.leader_epoch) == (1, expected_epoch)

    run(main(0))
    run(main(2))


def test_a_stopped_controller_refuses(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as controller:
            pass
        with pytest.raises(Refused) as refusal:
            await controller.create_topics([NewTopic("t")])
        assert refusal.value.code == ErrorCode.NOT_CONTROLLER

    run(main())


async def live(controller: Controller, acknowledged: dict[str, int], chance: Random) -> None:
    """Commands one after the other and side by side; what is answered is noted."""
    await join(controller)
    for number in range(6):
        names = [f"t{number}-{at}" for at in range(chance.randint(1, 3))]
        replies = await asyncio.gather(*(controller.create_topics([NewTopic(n, 2)]) for n in names))
        acknowledged.update({reply[0].name: 2 for reply in replies if reply[0].error == ErrorCode.NONE})
        if number % 2:
            await controller.create_partitions([NewPartitions(names[0], 3)])
            acknowledged[names[0]] = 3
        if number == 3:
            task = controller.keep_snapshot()
            if task is not None:
                await task


@pytest.mark.parametrize("is_power_cut", [False, True])
@pytest.mark.parametrize("operations", range(60))
def test_what_was_acknowledged_survives_a_crash_at_any_point(
    tmp_path: Path, operations: int, is_power_cut: bool
) -> None:
    fate = Fate(operations, seed=operations)
    acknowledged: dict[str, int] = {}
    fatal: list[BaseException] = []

    async def first() -> None:
        controller = Controller(place(tmp_path, files=FaultyFiles(fate)), {}, fatal.append, random=Random(1))
        try:
            await controller.start()
            await live(controller, acknowledged, Random(operations))
        except (OSError, Refused):
            assert fate.is_over

    async def again() -> None:
        controller = Controller(place(tmp_path), {}, fail)
        await controller.start()
        found = {name: len(topic.partitions) for name, topic in controller.image.topics_by_name.items()}
        assert all(found.get(name, 0) >= count for name, count in acknowledged.items()), (found, acknowledged)
        assert set(found.values()) <= {2, 3}, "half a command"
        await join(controller)
        assert (await controller.create_topics([NewTopic("next")]))[0].error == ErrorCode.NONE
        image = ClusterImage()
        for record in image_records(controller.image):
            image.apply(record)
        assert image.__dict__ == controller.image.__dict__
        await controller.stop()

    run(first())
    if is_power_cut:
        fate.lose_unsynced()
    run(again())


def test_a_failed_fsync_ends_the_node_and_acknowledges_nothing(tmp_path: Path) -> None:
    fate = Fate()
    fatal: list[BaseException] = []

    async def main() -> None:
        async with running(tmp_path, on_fatal=fatal.append, files=FaultyFiles(fate)) as controller:
            fate.operations_left = 1  # the write succeeds, the fsync does not
            with pytest.raises(Refused):
                await controller.create_topics([NewTopic("t")])
            assert isinstance(fatal[0], OSError) and not controller.is_leader
            assert "t" not in controller.image.topics_by_name
            with pytest.raises(Refused) as refusal:
                await controller.create_topics([NewTopic("u")])
            assert refusal.value.code == ErrorCode.NOT_CONTROLLER
            fate.is_over, fate.operations_left = False, 1000

    run(main())
    assert len(fatal) == 1


def test_a_start_that_fails_can_be_stopped(tmp_path: Path) -> None:
    directory = tmp_path / "__cluster_metadata-0"
    directory.mkdir()
    (directory / "quorum-state").write_text("{")

    async def main() -> None:
        controller = Controller(place(tmp_path), {}, fail)
        with pytest.raises(Refused, match="quorum-state"):
            await controller.start()
        await controller.stop()

    run(main())


def test_a_lost_vote_is_no_reason_to_stay_behind_the_log(tmp_path: Path) -> None:
    epochs = []

    async def main() -> None:
        controller = Controller(place(tmp_path), {}, fail)
        await controller.start()
        epochs.append(controller.epoch)
        await controller.stop()

    run(main())
    (tmp_path / "__cluster_metadata-0" / "quorum-state").unlink()
    run(main())
    assert epochs[1] > epochs[0]


def test_a_directory_of_another_quorum_is_not_opened(tmp_path: Path) -> None:
    async def first() -> None:
        async with running(tmp_path):
            pass

    async def other() -> None:
        controller = Controller(place(tmp_path, node_id=2), {}, fail)
        with pytest.raises(Refused, match=r"the quorum on disk is \[1\], not \[2\]"):
            await controller.start()
        await controller.stop()

    run(first())
    run(other())


def test_the_metadata_of_apache_kafka_change_hands(tmp_path: Path) -> None:
    shutil.copytree(APACHE / "__cluster_metadata-0", tmp_path / "__cluster_metadata-0")

    async def main() -> None:
        async with running(tmp_path) as controller:
            image = controller.image
            assert image.features["metadata.version"] == 30
            assert {path.name.rpartition("-")[0] for path in APACHE.glob("*-0")} <= {
                "__cluster_metadata",
                *image.topics_by_name,
            }
            for topic in image.topics_by_id.values():
                for entry in topic.partitions:
                    assert (entry.leader, entry.isr, entry.elr) == (1, (1,), ())
                told = APACHE / f"{topic.name}-0" / "partition.metadata"
                if told.exists():
                    assert f"topic_id: {uuid_text(topic.id)}" in told.read_text()
            assert image.topic_config("compacted")["cleanup.policy"] == "compact"
            (reply,) = await controller.create_topics([NewTopic("ours")])
            assert reply.error == ErrorCode.NONE
            await snapshot(controller)

    run(main())
    found = facts_after_restart(tmp_path)["topics"]
    assert isinstance(found, dict) and "ours" in found and "compacted" in found


def test_three_members_agree_and_go_on_without_one(tmp_path: Path) -> None:
    async def main() -> None:
        trio = Trio(tmp_path)
        await trio.start()
        await trio.ask(join)
        await trio.ask(lambda leader: leader.create_topics([NewTopic("one")]))
        for member in trio.members.values():
            await until(member, lambda image: "one" in image.topics_by_name)
        gone = (await trio.leader()).leader_id
        assert gone is not None
        await trio.stop(gone)
        await trio.ask(lambda leader: leader.create_topics([NewTopic("two")]))
        await snapshot(await trio.leader())
        back = trio.make(gone)
        await back.start()
        await until(back, lambda image: "two" in image.topics_by_name)
        assert back.image.topics_by_name.keys() == {"one", "two"}
        for node_id in list(trio.members):
            await trio.stop(node_id)
        assert not trio.fatal

    run(main())


def test_only_the_leader_takes_commands(tmp_path: Path) -> None:
    async def main() -> None:
        trio = Trio(tmp_path)
        await trio.start()
        leader = await trio.leader()
        others = [member for member in trio.members.values() if member is not leader and not member.is_leader]
        assert len(others) == 2
        for member in others:
            with pytest.raises(Refused) as refusal:
                await member.create_topics([NewTopic("nowhere")])
            assert refusal.value.code == ErrorCode.NOT_CONTROLLER
        for node_id in list(trio.members):
            await trio.stop(node_id)

    run(main())


async def snapshot(controller: Controller) -> None:
    task = controller.keep_snapshot()
    assert task is not None
    await task


def test_a_member_far_behind_is_sent_a_snapshot(tmp_path: Path) -> None:
    async def main() -> None:
        trio = Trio(tmp_path)
        await trio.start()
        await trio.ask(join)
        leader = await trio.leader()
        late = next(id for id in trio.members if id != leader.leader_id)
        await trio.stop(late)
        for round in range(3):
            asks = [NewTopic(f"t{round}-{at}") for at in range(20)]
            await trio.ask(lambda leader, asks=asks: leader.create_topics(asks))  # type: ignore[misc]
            for member in trio.members.values():
                await until(member, lambda image, last=asks[-1].name: last in image.topics_by_name)  # type: ignore[misc]
                await snapshot(member)
        back = trio.make(late)
        await back.start()
        await until(back, lambda image: "t2-19" in image.topics_by_name)
        assert facts(back.image) == facts((await trio.leader()).image)
        for node_id in list(trio.members):
            await trio.stop(node_id)
        assert not trio.fatal

    run(main())
    snapshots = list((tmp_path).glob("*/__cluster_metadata-0/*.checkpoint"))
    assert snapshots and not list(tmp_path.glob("*/__cluster_metadata-0/*.part"))
