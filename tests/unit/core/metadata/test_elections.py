import pytest

from ottla.base.errors import ErrorCode, Refused
from ottla.core.metadata.asks import (
    Assignment,
    ConfigChange,
    ConfigEdit,
    FeatureUpdate,
    IsrAnswer,
    IsrMember,
    IsrProposal,
    NewTopic,
    PartitionIsr,
)
from ottla.core.metadata.configs import incremental_alter_configs
from ottla.core.metadata.elections import alter_partition, elect_leaders
from ottla.core.metadata.features import update_features
from ottla.core.metadata.topics import create_topics
from tests.unit.core.metadata.cluster import Cluster


def three_replicas(**settings: str) -> Cluster:
    cluster = Cluster(brokers=3)
    configs = tuple((name.replace("_", "."), value) for name, value in settings.items())
    ask = NewTopic("t", assignments=(Assignment(0, (1, 2, 3)),), configs=configs)
    cluster.apply(create_topics(cluster.state, [ask]))
    return cluster


def propose(cluster: Cluster, isr: tuple[int, ...], member_epoch: int = -1, **other: object) -> IsrAnswer:
    entry, topic = cluster.partition("t"), cluster.image.topics_by_name["t"]
    values: dict[str, object] = {
        "topic_id": topic.id,
        "partition": 0,
        "leader_epoch": entry.leader_epoch,
        "partition_epoch": entry.partition_epoch,
        "isr": tuple(IsrMember(member, member_epoch) for member in isr),
        **other,
    }
    ask = PartitionIsr(**values)  # type: ignore[arg-type]
    proposal = IsrProposal(entry.leader, cluster.image.brokers[entry.leader].epoch, (ask,))
    answers = cluster.apply(alter_partition(cluster.state, proposal))
    assert isinstance(answers, list)
    answer = answers[0]
    assert isinstance(answer, IsrAnswer)
    return answer


def elect(cluster: Cluster, unclean: bool = False, every: bool = False) -> list[tuple[str, ErrorCode]]:
    asked = None if every else [("t", 0)]
    replies = cluster.apply(elect_leaders(cluster.state, asked, unclean))
    assert isinstance(replies, list)
    return [(reply.topic, reply.error) for reply in replies]


def test_the_leader_shrinks_and_grows_the_isr_without_a_new_leader_epoch() -> None:
    cluster = three_replicas()
    answer = propose(cluster, (1, 3))
    assert (answer.error, answer.isr, answer.partition_epoch, answer.leader_epoch) == (0, (1, 3), 1, 0)
    answer = propose(cluster, (1, 3, 2))
    assert (answer.isr, answer.partition_epoch) == ((1, 3, 2), 2)
    assert cluster.partition("t").isr == (1, 3, 2)


@pytest.mark.parametrize(
    ("isr", "other", "error"),
    [
        ((1, 2), {"leader_epoch": 5}, ErrorCode.NOT_CONTROLLER),
        ((1, 2), {"partition_epoch": 5}, ErrorCode.NOT_CONTROLLER),
        ((1, 2), {"leader_epoch": -1}, ErrorCode.FENCED_LEADER_EPOCH),
        ((1, 2), {"partition_epoch": -1}, ErrorCode.INVALID_UPDATE_VERSION),
        ((1, 2), {"topic_id": b"?" * 16}, ErrorCode.UNKNOWN_TOPIC_ID),
        ((1, 2), {"partition": 1}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ((1, 2), {"partition": -1}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ((2, 3), {}, ErrorCode.INVALID_REQUEST),
        ((), {}, ErrorCode.INVALID_REQUEST),
        ((1, 1), {}, ErrorCode.INVALID_REQUEST),
        ((1, 9), {}, ErrorCode.INVALID_REQUEST),
        ((1, 2), {"recovering": True}, ErrorCode.INVALID_REQUEST),
        ((1,), {"recovering": True}, ErrorCode.INVALID_REQUEST),
        ((1, 2), {"member_epoch": 99}, ErrorCode.INELIGIBLE_REPLICA),
    ],
)
def test_a_proposal_that_is_stale_or_wrong_changes_nothing(
    isr: tuple[int, ...], other: dict[str, object], error: ErrorCode
) -> None:
    cluster = three_replicas()
    assert propose(cluster, isr, **other).error == error  # type: ignore[arg-type]
    assert cluster.partition("t").isr == (1, 2, 3)


def test_a_fenced_replica_cannot_be_in_sync() -> None:
    cluster = three_replicas()
    cluster.fence(3)
    assert cluster.partition("t").isr == (1, 2)
    assert propose(cluster, (1, 2, 3)).error == ErrorCode.INELIGIBLE_REPLICA


def test_only_the_leader_proposes_and_only_in_its_own_epoch() -> None:
    cluster = three_replicas()
    topic = cluster.image.topics_by_name["t"]
    ask = PartitionIsr(topic.id, 0, 0, 0, (IsrMember(2),))
    answers = alter_partition(cluster.state, IsrProposal(2, cluster.image.brokers[2].epoch, (ask,))).reply
    assert isinstance(answers, list) and answers[0].error == ErrorCode.INVALID_REQUEST
    with pytest.raises(Refused) as refusal:
        alter_partition(cluster.state, IsrProposal(1, 99, (ask,)))
    assert refusal.value.code == ErrorCode.STALE_BROKER_EPOCH


def test_the_preferred_leader_is_elected_when_it_is_in_sync() -> None:
    cluster = three_replicas()
    assert elect(cluster) == [("t", ErrorCode.ELECTION_NOT_NEEDED)]
    assert elect(cluster, every=True) == []
    cluster.fence(1)
    assert elect(cluster) == [("t", ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)]
    cluster.heartbeat(1)
    propose(cluster, (1, 2, 3))
    assert cluster.partition("t").leader == 2
    assert elect(cluster, every=True) == [("t", ErrorCode.NONE)]
    assert (cluster.partition("t").leader, cluster.partition("t").leader_epoch) == (1, 2)


def test_an_unclean_election_is_made_only_when_asked_for_and_is_marked() -> None:
    cluster = three_replicas()
    for broker in (1, 2, 3):
        cluster.fence(broker)
    cluster.heartbeat(1)
    assert (cluster.partition("t").leader, cluster.partition("t").isr) == (-1, (3,))
    assert elect(cluster, unclean=True) == [("t", ErrorCode.NONE)]
    entry = cluster.partition("t")
    assert (entry.leader, entry.isr, entry.recovering) == (1, (1,), True)
    assert propose(cluster, (1,), recovering=False).error == 0
    assert not cluster.partition("t").recovering
    assert elect(cluster, unclean=True) == [("t", ErrorCode.ELECTION_NOT_NEEDED)]


def test_without_any_replica_online_not_even_an_unclean_election_succeeds() -> None:
    cluster = three_replicas()
    for broker in (1, 2, 3):
        cluster.fence(broker)
    assert elect(cluster, unclean=True) == [("t", ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE)]


def test_a_topic_may_allow_unclean_elections_at_any_time() -> None:
    cluster = three_replicas(unclean_leader_election_enable="true")
    for broker in (1, 2, 3):
        cluster.fence(broker)
    cluster.heartbeat(2)
    entry = cluster.partition("t")
    assert (entry.leader, entry.isr, entry.recovering) == (2, (2,), True)


def test_who_left_an_isr_below_the_minimum_may_lead() -> None:
    cluster = three_replicas()
    cluster.apply(update_features(cluster.state, [FeatureUpdate("eligible.leader.replicas.version", 1)]))
    change = ConfigChange(2, "t", (ConfigEdit("min.insync.replicas", 0, "2"),))
    cluster.apply(incremental_alter_configs(cluster.state, [change]))
    cluster.fence(3)
    assert (cluster.partition("t").isr, cluster.partition("t").elr) == ((1, 2), ())
    cluster.fence(2)
    assert (cluster.partition("t").isr, cluster.partition("t").elr) == ((1,), (2,))
    cluster.fence(1)
    entry = cluster.partition("t")
    assert (entry.leader, entry.isr, entry.elr) == (-1, (), (1, 2))
    cluster.heartbeat(3)
    assert cluster.partition("t").leader == -1, "broker 3 left while the ISR could still acknowledge"
    cluster.heartbeat(2)
    entry = cluster.partition("t")
    assert (entry.leader, entry.isr, entry.elr, entry.recovering) == (2, (2,), (1,), False)
    propose(cluster, (2, 3))
    assert cluster.partition("t").elr == (), "the ISR can acknowledge again without broker 1"


def keeping_eligible(cluster: Cluster) -> Cluster:
    cluster.apply(update_features(cluster.state, [FeatureUpdate("eligible.leader.replicas.version", 1)]))
    return cluster


def test_a_crashed_broker_is_no_longer_eligible() -> None:
    cluster = keeping_eligible(three_replicas(min_insync_replicas="2"))
    for broker in (3, 2, 1):
        cluster.fence(broker)
    assert cluster.partition("t").elr == (1, 2)
    epoch = cluster.image.brokers[2].epoch
    cluster.register(2, incarnation=2, previous_epoch=epoch)
    assert cluster.partition("t").elr == (1, 2), "it had stopped in good order"
    cluster.register(1, incarnation=2)
    entry = cluster.partition("t")
    assert (entry.leader, entry.isr, entry.elr) == (-1, (), (2,))
    cluster.heartbeat(1)
    assert cluster.partition("t").leader == -1
    cluster.heartbeat(2)
    entry = cluster.partition("t")
    assert (entry.leader, entry.isr, entry.recovering) == (2, (2,), False)


def test_when_all_have_crashed_the_last_leader_leads_again() -> None:
    cluster = keeping_eligible(three_replicas(min_insync_replicas="2"))
    for broker in (1, 2, 3):
        cluster.fence(broker)
    assert cluster.partition("t").last_known_elr == (3,)
    for broker in (2, 3):
        cluster.register(broker, incarnation=2)
    assert (cluster.partition("t").elr, cluster.partition("t").last_known_elr) == ((), (3,))
    cluster.heartbeat(2)
    assert cluster.partition("t").leader == -1
    cluster.heartbeat(3)
    entry = cluster.partition("t")
    assert (entry.leader, entry.isr, entry.recovering, entry.last_known_elr) == (3, (3,), True, ())


def test_a_partition_that_is_not_there_has_no_leader_to_elect() -> None:
    cluster = three_replicas()
    replies = elect_leaders(cluster.state, [("t", 7), ("x", 0)]).reply
    assert isinstance(replies, list)
    assert [r.error for r in replies] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2
