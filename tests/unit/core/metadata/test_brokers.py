import pytest

from ottla.base.errors import ErrorCode, Refused
from ottla.core.metadata.asks import (
    Assignment,
    BrokerHeartbeat,
    BrokerRegistration,
    FeatureUpdate,
    HeartbeatReply,
    NewTopic,
    ProducerIdBlock,
)
from ottla.core.metadata.brokers import (
    allocate_producer_ids,
    broker_heartbeat,
    fence_overdue,
    register_broker,
    unregister_broker,
)
from ottla.core.metadata.features import update_features
from ottla.core.metadata.topics import create_topics
from tests.unit.core.metadata.cluster import CLUSTER, SESSION_MS, Cluster


def with_topic(cluster: Cluster, *replicas: int) -> Cluster:
    cluster.apply(create_topics(cluster.state, [NewTopic("t", assignments=(Assignment(0, replicas),))]))
    return cluster


def test_a_new_broker_is_fenced_until_it_has_caught_up() -> None:
    cluster = Cluster(brokers=0)
    cluster.offset = 7
    epoch = cluster.register(1)
    assert epoch == 7 and cluster.image.brokers[1].fenced
    behind = broker_heartbeat(cluster.state, BrokerHeartbeat(1, epoch, epoch - 1))
    assert (behind.records, behind.reply) == ((), HeartbeatReply(False, True, False))
    assert cluster.heartbeat(1) == HeartbeatReply(True, False, False)
    assert not cluster.image.brokers[1].fenced


def test_the_same_process_may_register_again_and_another_may_not() -> None:
    cluster = Cluster()
    epoch = cluster.image.brokers[1].epoch
    cluster.sessions.hear(1, 100)
    assert cluster.register(1, incarnation=1, now_ms=200) == epoch
    assert not cluster.image.brokers[1].fenced
    with pytest.raises(Refused) as refusal:
        cluster.register(1, incarnation=2, now_ms=200)
    assert refusal.value.code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    assert cluster.register(1, incarnation=2, now_ms=100 + SESSION_MS) > epoch


def test_a_broker_of_another_cluster_is_refused() -> None:
    cluster = Cluster()
    ask = BrokerRegistration(2, "elsewhere", b"i" * 16, ())
    with pytest.raises(Refused) as refusal:
        register_broker(cluster.state, cluster.sessions, ask, 9, 0)
    assert refusal.value.code == ErrorCode.INCONSISTENT_CLUSTER_ID


def test_a_broker_that_does_not_speak_a_finalized_feature_is_refused() -> None:
    cluster = Cluster()
    cluster.apply(update_features(cluster.state, [FeatureUpdate("metadata.version", 25)]))
    ask = BrokerRegistration(2, CLUSTER, b"i" * 16, (), {"metadata.version": (7, 20)})
    with pytest.raises(Refused) as refusal:
        register_broker(cluster.state, cluster.sessions, ask, 9, 0)
    assert refusal.value.code == ErrorCode.UNSUPPORTED_VERSION


def test_a_restarted_broker_leads_again_in_a_new_leader_epoch() -> None:
    cluster = with_topic(Cluster(), 1)
    assert (cluster.partition("t").leader, cluster.partition("t").leader_epoch) == (1, 0)
    cluster.register(1, incarnation=2, now_ms=SESSION_MS * 2)
    assert (cluster.partition("t").leader, cluster.partition("t").isr) == (-1, (1,))
    cluster.heartbeat(1)
    entry = cluster.partition("t")
    assert (entry.leader, entry.leader_epoch, entry.partition_epoch) == (1, 2, 2)


def test_a_silent_broker_is_fenced_and_its_partitions_go_to_others() -> None:
    cluster = with_topic(Cluster(brokers=3), 1, 2, 3)
    cluster.sessions.begin(0)
    for broker in (2, 3):
        cluster.sessions.hear(broker, 5_000)
    assert fence_overdue(cluster.state, cluster.sessions, SESSION_MS - 1).records == ()
    assert cluster.sessions.next_deadline_ms(cluster.state) == SESSION_MS
    cluster.apply(fence_overdue(cluster.state, cluster.sessions, SESSION_MS))
    assert cluster.image.brokers[1].fenced
    entry = cluster.partition("t")
    assert (entry.leader, entry.isr, entry.leader_epoch) == (2, (2, 3), 1)
    assert cluster.sessions.next_deadline_ms(cluster.state) == SESSION_MS + 5_000


def test_time_in_which_the_controller_stood_still_fences_nobody() -> None:
    cluster = Cluster()
    cluster.sessions.begin(0)
    cluster.sessions.hear(1, 1_000)
    cluster.sessions.forgive(60_000)
    assert fence_overdue(cluster.state, cluster.sessions, 60_000 + SESSION_MS).records == ()
    assert fence_overdue(cluster.state, cluster.sessions, 61_000 + SESSION_MS).records != ()


def test_the_last_replica_in_sync_stays_in_sync_without_leading() -> None:
    cluster = with_topic(Cluster(brokers=2), 1, 2)
    cluster.fence(1)
    cluster.fence(2)
    entry = cluster.partition("t")
    assert (entry.leader, entry.isr) == (-1, (2,))
    cluster.heartbeat(1)
    assert cluster.partition("t").leader == -1, "broker 1 may lack acknowledged records"
    cluster.heartbeat(2)
    assert cluster.partition("t").leader == 2


def test_a_broker_that_wants_to_stop_first_hands_over() -> None:
    cluster = with_topic(Cluster(brokers=2), 1, 2)
    assert cluster.heartbeat(1, want_shut_down=True) == HeartbeatReply(True, False, False)
    assert cluster.image.brokers[1].in_controlled_shutdown
    assert (cluster.partition("t").leader, cluster.partition("t").isr) == (2, (2,))
    assert cluster.heartbeat(1, want_shut_down=True) == HeartbeatReply(True, True, True)
    assert cluster.image.brokers[1].fenced
    assert cluster.heartbeat(1, want_shut_down=True) == HeartbeatReply(True, True, True)


def test_a_stale_epoch_has_no_say() -> None:
    cluster = Cluster()
    for ask in (BrokerHeartbeat(1, 99, 100), BrokerHeartbeat(7, 0, 100)):
        with pytest.raises(Refused) as refusal:
            broker_heartbeat(cluster.state, ask)
        assert refusal.value.code == ErrorCode.STALE_BROKER_EPOCH
    with pytest.raises(Refused):
        allocate_producer_ids(cluster.state, 1, 99)


def test_an_unregistered_broker_is_gone_from_every_isr() -> None:
    cluster = with_topic(Cluster(brokers=2), 1, 2)
    cluster.apply(unregister_broker(cluster.state, 1))
    assert list(cluster.image.brokers) == [2]
    assert (cluster.partition("t").leader, cluster.partition("t").isr) == (2, (2,))
    with pytest.raises(Refused) as refusal:
        unregister_broker(cluster.state, 1)
    assert refusal.value.code == ErrorCode.BROKER_ID_NOT_REGISTERED


def test_no_producer_id_is_given_out_twice() -> None:
    cluster = Cluster(brokers=2)
    blocks = []
    for broker_id in (1, 2, 1):
        block = cluster.apply(allocate_producer_ids(cluster.state, broker_id, cluster.image.brokers[broker_id].epoch))
        assert isinstance(block, ProducerIdBlock)
        blocks.append(range(block.first, block.first + block.count))
    ids = [id for block in blocks for id in block]
    assert len(set(ids)) == len(ids) == 3000 and cluster.image.next_producer_id == 3000


def test_features_go_up_and_down_within_what_everyone_supports() -> None:
    cluster = Cluster()

    def update(*asks: FeatureUpdate) -> list[ErrorCode]:
        replies = cluster.apply(update_features(cluster.state, asks))
        assert isinstance(replies, list)
        return [reply.error for reply in replies]

    bad = ErrorCode.INVALID_UPDATE_VERSION
    assert update(FeatureUpdate("transaction.version", 2), FeatureUpdate("group.version", 1)) == [0, 0]
    assert cluster.image.features == {"transaction.version": 2, "group.version": 1}
    assert update(FeatureUpdate("transaction.version", 3)) == [bad]
    assert update(FeatureUpdate("transaction.version", 1)) == [bad]
    assert update(FeatureUpdate("transaction.version", 0, upgrade_type=2)) == [0]
    assert "transaction.version" not in cluster.image.features
    assert update(FeatureUpdate("group.version", 0, 2), FeatureUpdate("no.such", 1)) == [0, bad]
    assert cluster.image.features == {"group.version": 1}, "all or none"
    assert update(FeatureUpdate("group.version", 1, upgrade_type=9)) == [ErrorCode.INVALID_REQUEST]
