"""Whatever is asked in whatever order: the image is what its records say, and deciding never changes it."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.core.metadata import records as r
from ottla.core.metadata.asks import (
    ConfigChange,
    ConfigEdit,
    Decision,
    NewPartitions,
    NewTopic,
    TopicRef,
)
from ottla.core.metadata.brokers import allocate_producer_ids
from ottla.core.metadata.configs import incremental_alter_configs
from ottla.core.metadata.elections import elect_leaders
from ottla.core.metadata.image import ClusterImage, ImageDelta
from ottla.core.metadata.snapshot import image_records
from ottla.core.metadata.state import ControllerState
from ottla.core.metadata.topics import create_partitions, create_topics, delete_topics
from ottla.wire.state.metadata_frame import decode_metadata_record, encode_metadata_record
from tests.unit.core.metadata.cluster import CLUSTER, Cluster

NAMES = ("a", "b.c", "b_c", "d")


def rebuilt(records: list[object]) -> ClusterImage:
    image = ClusterImage()
    for record in records:
        image.apply(decode_metadata_record(encode_metadata_record(record)))  # type: ignore[arg-type]
    return image


def some_decision(state: ControllerState, chance: Random) -> Decision:
    name = chance.choice(NAMES)
    match chance.randrange(6):
        case 0 | 1:
            value = chance.choice([(), (("retention.ms", "9"),)])
            return create_topics(state, [NewTopic(name, chance.randint(1, 4), chance.randint(1, 3), configs=value)])
        case 2:
            return delete_topics(state, [TopicRef(name)])
        case 3:
            return create_partitions(state, [NewPartitions(name, chance.randint(1, 6))])
        case 4:
            edit = ConfigEdit("flush.ms", chance.randrange(2), "5")
            return incremental_alter_configs(state, [ConfigChange(2, name, (edit,))])
        case _:
            return elect_leaders(state, None, unclean=chance.random() < 0.5)


@given(st.integers(0, 10_000))
@settings(max_examples=60, deadline=None)
def test_the_image_is_what_its_records_say(seed: int) -> None:
    chance = Random(seed)
    cluster = Cluster(brokers=3, seed=seed)
    for _ in range(25):
        before = cluster.image.copy().__dict__
        decision = some_decision(cluster.state, chance)
        assert cluster.image.__dict__ == before, "deciding changed something"
        cluster.apply(decision)
        broker = chance.randint(1, 3)
        if chance.random() < 0.3:
            cluster.heartbeat(broker, want_fence=True)
        elif chance.random() < 0.5:
            cluster.heartbeat(broker)
    cluster.apply(allocate_producer_ids(cluster.state, 1, cluster.image.brokers[1].epoch))
    assert rebuilt(cluster.log).__dict__ == cluster.image.__dict__, "the log"
    assert rebuilt(list(image_records(cluster.image))).__dict__ == cluster.image.__dict__, "the snapshot"
    for topic in cluster.image.topics_by_id.values():
        for index, entry in enumerate(topic.partitions):
            assert entry.index == index and entry.isr and set(entry.isr) <= set(entry.replicas)
            assert entry.leader == -1 or entry.leader in entry.isr
            assert entry.leader == -1 or cluster.image.brokers[entry.leader].is_usable


def test_a_copy_goes_its_own_way() -> None:
    cluster = Cluster()
    cluster.apply(create_topics(cluster.state, [NewTopic("t", configs=(("flush.ms", "1"),))]))
    other = cluster.image.copy()
    assert other.__dict__ == cluster.image.__dict__
    before = other.copy().__dict__
    cluster.apply(create_partitions(cluster.state, [NewPartitions("t", 3)]))
    cluster.apply(incremental_alter_configs(cluster.state, [ConfigChange(2, "t", (ConfigEdit("flush.ms", 0, "2"),))]))
    assert other.__dict__ == before


def test_the_delta_names_what_was_touched() -> None:
    cluster = Cluster()
    delta = ImageDelta()
    decision = create_topics(cluster.state, [NewTopic("t", 2, configs=(("flush.ms", "1"),))])
    for record in decision.records:
        cluster.image.apply(record, delta)
    topic = cluster.image.topics_by_name["t"]
    assert delta.topics_created == {topic.id: topic}
    assert delta.partitions == {topic.id: {0, 1}} and delta.configs == {(2, "t")} and not delta.brokers
    delta = ImageDelta()
    for record in delete_topics(cluster.state, [TopicRef("t")]).records:
        cluster.image.apply(record, delta)
    assert delta.topics_deleted == {topic.id: topic} and not delta.partitions


def test_a_topic_that_came_and_went_within_a_delta_was_never_there() -> None:
    delta, image = ImageDelta(), ClusterImage()
    image.apply(r.TopicRecord(name="t", topic_id=b"t" * 16), delta)
    image.apply(r.PartitionRecord(partition_id=0, topic_id=b"t" * 16, replicas=[1], isr=[1], leader=1), delta)
    image.apply(r.RemoveTopicRecord(topic_id=b"t" * 16), delta)
    assert (delta.topics_created, delta.topics_deleted, delta.partitions) == ({}, {}, {})


def test_an_open_transaction_is_not_seen_until_it_ends() -> None:
    image, delta = ClusterImage(), ImageDelta()
    image.apply(r.BeginTransactionRecord(name="large"), delta)
    image.apply(r.TopicRecord(name="t", topic_id=b"t" * 16), delta)
    assert image.is_in_transaction and not image.topics_by_name and not delta.topics_created
    aborted = image.copy()
    aborted.apply(r.AbortTransactionRecord())
    aborted.apply(r.EndTransactionRecord())
    assert not aborted.topics_by_name and not aborted.is_in_transaction
    image.apply(r.EndTransactionRecord(), delta)
    assert list(image.topics_by_name) == ["t"] and list(delta.topics_created) == [b"t" * 16]


def test_partitions_may_come_in_any_order_as_apaches_snapshots_have_them() -> None:
    image = ClusterImage()
    image.apply(r.TopicRecord(name="t", topic_id=b"t" * 16))
    for index in (2, 0, 1):
        image.apply(r.PartitionRecord(partition_id=index, topic_id=b"t" * 16, replicas=[1], isr=[1], leader=1))
    assert [(e.index, e.leader) for e in image.topics_by_name["t"].partitions] == [(0, 1), (1, 1), (2, 1)]


def test_access_records_survive_a_snapshot() -> None:
    image = ClusterImage()
    acl = r.AccessControlEntryRecord(id=b"a" * 16, resource_type=2, resource_name="t", principal="User:x", host="*")
    scram = r.UserScramCredentialRecord(name="x", mechanism=1, salt=b"s", stored_key=b"k", server_key=b"v")
    entity = [r.EntityData(entity_type="user", entity_name=None)]
    for record in (
        acl,
        scram,
        r.ClientQuotaRecord(entity=entity, key="producer_byte_rate", value=5.0),
        r.DelegationTokenRecord(token_id="one", owner="User:x"),
        r.RegisterControllerRecord(controller_id=1),
    ):
        image.apply(record)
    assert rebuilt(list(image_records(image))).__dict__ == image.__dict__
    for record in (
        r.RemoveAccessControlEntryRecord(id=acl.id),
        r.RemoveUserScramCredentialRecord(name="x", mechanism=1),
        r.ClientQuotaRecord(entity=entity, key="producer_byte_rate", remove=True),
        r.RemoveDelegationTokenRecord(token_id="one"),
        r.UnregisterControllerRecord(controller_id=1),
    ):
        image.apply(record)
    assert image.__dict__ == ClusterImage().__dict__


def test_every_kind_of_record_has_its_place_in_the_image() -> None:
    from ottla.core.metadata.image import _APPLIERS
    from ottla.wire.state.cluster_metadata import RECORDS

    transaction = {r.BeginTransactionRecord, r.EndTransactionRecord, r.AbortTransactionRecord}
    assert set(_APPLIERS) | transaction == set(RECORDS.values())


def test_a_kind_of_record_that_nobody_knows_is_an_error() -> None:
    with pytest.raises(KeyError):
        ClusterImage().apply(object())


def test_flags_of_a_registration_change_leave_alone_what_they_do_not_name() -> None:
    cluster = Cluster()
    epoch = cluster.image.brokers[1].epoch
    cluster.image.apply(r.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=epoch, in_controlled_shutdown=1))
    assert (cluster.image.brokers[1].fenced, cluster.image.brokers[1].in_controlled_shutdown) == (False, True)
    cluster.image.apply(r.FenceBrokerRecord(id=1, epoch=epoch))
    assert cluster.image.brokers[1].fenced and cluster.state.cluster_id == CLUSTER
    cluster.image.apply(r.UnfenceBrokerRecord(id=1, epoch=epoch))
    assert not cluster.image.brokers[1].fenced
    cluster.image.apply(r.UnregisterBrokerRecord(broker_id=1, broker_epoch=epoch))
    assert not cluster.image.brokers


def test_eligible_replicas_can_be_cleared() -> None:
    image = ClusterImage()
    image.apply(r.TopicRecord(name="t", topic_id=b"t" * 16))
    record = r.PartitionRecord(
        partition_id=0, topic_id=b"t" * 16, replicas=[1, 2], isr=[1], leader=1, eligible_leader_replicas=[2]
    )
    image.apply(record)
    image.apply(r.ClearElrRecord(topic_name=""))
    entry = image.partition("t", 0)
    assert entry is not None and entry.elr == ()
