import pytest

from ottla.base.errors import ErrorCode
from ottla.base.limits import PARTITIONS_PER_REQUEST_MAX, PARTITIONS_PER_TOPIC_MAX
from ottla.core.metadata.asks import Assignment, NewPartitions, NewTopic, TopicCreation, TopicRef
from ottla.core.metadata.topics import create_partitions, create_topics, delete_topics
from tests.unit.core.metadata.cluster import Cluster


def create(cluster: Cluster, *asks: NewTopic, validate_only: bool = False) -> list[TopicCreation]:
    replies = cluster.apply(create_topics(cluster.state, asks, validate_only))
    assert isinstance(replies, list)
    return replies


def grow(cluster: Cluster, *asks: NewPartitions) -> list[tuple[str, ErrorCode]]:
    replies = cluster.apply(create_partitions(cluster.state, asks))
    assert isinstance(replies, list)
    return [(reply.name, reply.error) for reply in replies]


def test_a_topic_without_wishes_gets_the_brokers_defaults() -> None:
    cluster = Cluster(brokers=3)
    cluster.state.static = {"num.partitions": "4", "default.replication.factor": "2"}
    (reply,) = create(cluster, NewTopic("orders"))
    assert (reply.error, reply.partition_count, reply.replication_factor) == (ErrorCode.NONE, 4, 2)
    topic = cluster.image.topics_by_name["orders"]
    assert topic.id == reply.id and cluster.image.topics_by_id[reply.id] is topic
    assert [entry.index for entry in topic.partitions] == [0, 1, 2, 3]
    for entry in topic.partitions:
        assert len(entry.replicas) == 2 and entry.isr == entry.replicas and entry.leader == entry.replicas[0]
        assert (entry.leader_epoch, entry.partition_epoch) == (0, 0)
        assert entry.directories == tuple(bytes(15) + bytes([replica]) for replica in entry.replicas)


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("", "the empty string"),
        (".", "'.' or '..'"),
        ("..", "'.' or '..'"),
        ("a" * 250, "longer than the max allowed length 249"),
        ("käse", "ASCII alphanumerics"),
        ("a b", "ASCII alphanumerics"),
        ("a/b", "ASCII alphanumerics"),
        ("line\n", "ASCII alphanumerics"),
    ],
)
def test_a_bad_name_is_refused_with_the_reason(name: str, complaint: str) -> None:
    (reply,) = create(Cluster(), NewTopic(name))
    assert reply.error == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert reply.why is not None and complaint in reply.why


def test_the_longest_legal_name_is_accepted() -> None:
    (reply,) = create(Cluster(), NewTopic("A-z_0." + "x" * 243))
    assert reply.error == ErrorCode.NONE


def test_names_that_share_a_metric_collide_also_within_one_question() -> None:
    cluster = Cluster()
    assert [r.error for r in create(cluster, NewTopic("a.b"), NewTopic("a_b"))] == [
        0,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
    ]
    (reply,) = create(cluster, NewTopic("a_b"))
    assert reply.why == "Topic 'a_b' collides with existing topic: a.b"
    cluster.apply(delete_topics(cluster.state, [TopicRef("a.b")]))
    assert create(cluster, NewTopic("a_b"))[0].error == ErrorCode.NONE


def test_an_existing_topic_is_not_made_again() -> None:
    cluster = Cluster()
    create(cluster, NewTopic("t"))
    (reply,) = create(cluster, NewTopic("t"))
    assert (reply.error, reply.why) == (ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 't' already exists.")


def test_a_name_that_is_asked_for_twice_is_refused_and_others_are_made() -> None:
    cluster = Cluster()
    replies = create(cluster, NewTopic("twin"), NewTopic("single"), NewTopic("twin"))
    assert [r.error for r in replies] == [ErrorCode.INVALID_REQUEST, ErrorCode.NONE, ErrorCode.INVALID_REQUEST]
    assert list(cluster.image.topics_by_name) == ["single"]


@pytest.mark.parametrize(
    ("ask", "error"),
    [
        (NewTopic("t", partition_count=0), ErrorCode.INVALID_PARTITIONS),
        (NewTopic("t", partition_count=-2), ErrorCode.INVALID_PARTITIONS),
        (NewTopic("t", partition_count=2**31 - 1), ErrorCode.POLICY_VIOLATION),
        (NewTopic("t", partition_count=PARTITIONS_PER_TOPIC_MAX + 1), ErrorCode.POLICY_VIOLATION),
        (NewTopic("t", replication_factor=0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (NewTopic("t", replication_factor=-2), ErrorCode.INVALID_REPLICATION_FACTOR),
        (NewTopic("t", replication_factor=3), ErrorCode.INVALID_REPLICATION_FACTOR),
        (NewTopic("t", replication_factor=32767), ErrorCode.INVALID_REPLICATION_FACTOR),
        (NewTopic("t", configs=(("no.such", "1"),)), ErrorCode.INVALID_CONFIG),
        (NewTopic("t", configs=(("retention.ms", "soon"),)), ErrorCode.INVALID_CONFIG),
        (NewTopic("t", configs=(("retention.ms", None),)), ErrorCode.INVALID_CONFIG),
        (NewTopic("t", 1, -1, (Assignment(0, (1,)),)), ErrorCode.INVALID_REQUEST),
        (NewTopic("t", -1, 1, (Assignment(0, (1,)),)), ErrorCode.INVALID_REQUEST),
        (NewTopic("t", assignments=(Assignment(1, (1,)),)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("t", assignments=(Assignment(0, ()),)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("t", assignments=(Assignment(0, (1, 1)),)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("t", assignments=(Assignment(0, (7,)),)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("t", assignments=(Assignment(0, (1,)), Assignment(0, (2,)))), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("t", assignments=(Assignment(0, (1,)), Assignment(1, (1, 2)))), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_an_impossible_wish_is_refused_and_changes_nothing(ask: NewTopic, error: ErrorCode) -> None:
    cluster = Cluster(brokers=2)
    (reply,) = create(cluster, ask)
    assert reply.error == error and reply.why
    assert not cluster.image.topics_by_name and not cluster.image.configs


def test_an_assignment_by_hand_is_taken_as_it_is() -> None:
    cluster = Cluster(brokers=3)
    (reply,) = create(cluster, NewTopic("t", assignments=(Assignment(1, (3, 1)), Assignment(0, (2, 3)))))
    assert (reply.error, reply.partition_count, reply.replication_factor) == (ErrorCode.NONE, 2, 2)
    assert [e.replicas for e in cluster.image.topics_by_name["t"].partitions] == [(2, 3), (3, 1)]


def test_a_fenced_broker_gets_replicas_but_neither_leads_nor_is_in_sync() -> None:
    cluster = Cluster(brokers=2)
    cluster.fence(2)
    create(cluster, NewTopic("t", 6, 2))
    for entry in cluster.image.topics_by_name["t"].partitions:
        assert (entry.leader, entry.isr, set(entry.replicas)) == (1, (1,), {1, 2})


def test_without_an_unfenced_broker_no_topic_is_made() -> None:
    cluster = Cluster(brokers=1)
    cluster.fence(1)
    assert create(cluster, NewTopic("t"))[0].error == ErrorCode.INVALID_REPLICATION_FACTOR
    by_hand = NewTopic("t", assignments=(Assignment(0, (1,)),))
    assert create(cluster, by_hand)[0].error == ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_validation_answers_the_same_and_writes_nothing() -> None:
    cluster = Cluster()
    asks = (NewTopic("t", 3, configs=(("retention.ms", "5"),)), NewTopic("..", 3))
    decision = create_topics(cluster.state, asks, validate_only=True)
    assert decision.records == ()
    assert isinstance(decision.reply, list)
    assert [(r.error, r.partition_count) for r in decision.reply] == [(0, 3), (ErrorCode.INVALID_TOPIC_EXCEPTION, -1)]


def test_deciding_changes_nothing() -> None:
    cluster = Cluster()
    before = cluster.image.copy().__dict__
    create_topics(cluster.state, [NewTopic("t", 5)])
    assert cluster.image.__dict__ == before


def test_one_question_makes_a_bounded_number_of_partitions() -> None:
    cluster = Cluster()
    share = PARTITIONS_PER_TOPIC_MAX
    fitting = PARTITIONS_PER_REQUEST_MAX // share
    asks = [NewTopic(f"t{at}", share) for at in range(fitting)] + [NewTopic("more", 1)]
    replies = create_topics(cluster.state, asks).reply
    assert isinstance(replies, list)
    assert [r.error for r in replies] == [ErrorCode.NONE] * fitting + [ErrorCode.POLICY_VIOLATION]


def test_topics_are_deleted_by_name_and_by_id_and_take_their_settings_along() -> None:
    cluster = Cluster()
    by_id = create(cluster, NewTopic("a", configs=(("retention.ms", "1"),)), NewTopic("b"))[1].id
    replies = cluster.apply(delete_topics(cluster.state, [TopicRef("a"), TopicRef(None, by_id)]))
    assert isinstance(replies, list)
    assert [(r.name, r.error) for r in replies] == [("a", 0), ("b", 0)]
    assert not cluster.image.topics_by_name and not cluster.image.topics_by_id and not cluster.image.configs


def test_what_is_not_there_cannot_be_deleted() -> None:
    cluster = Cluster()
    topic_id = create(cluster, NewTopic("t"))[0].id
    asks = [
        TopicRef("gone"),
        TopicRef(None, b"?" * 16),
        TopicRef(None),
        TopicRef("t", topic_id),
        TopicRef("t"),
        TopicRef(None, topic_id),
    ]
    replies = cluster.apply(delete_topics(cluster.state, asks))
    assert isinstance(replies, list)
    assert [r.error for r in replies] == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUEST,
    ]
    assert "t" in cluster.image.topics_by_name


def test_deletion_can_be_switched_off() -> None:
    cluster = Cluster()
    create(cluster, NewTopic("t"))
    cluster.state.static = {"delete.topic.enable": "false"}
    replies = cluster.apply(delete_topics(cluster.state, [TopicRef("t")]))
    assert isinstance(replies, list) and replies[0].error == ErrorCode.TOPIC_DELETION_DISABLED
    assert "t" in cluster.image.topics_by_name


def test_a_topic_only_grows() -> None:
    cluster = Cluster(brokers=2)
    create(cluster, NewTopic("t", 2, 2))
    assert grow(cluster, NewPartitions("t", 5)) == [("t", ErrorCode.NONE)]
    partitions = cluster.image.topics_by_name["t"].partitions
    assert [len(entry.replicas) for entry in partitions] == [2] * 5
    for count in (5, 4, 0, -1):
        assert grow(cluster, NewPartitions("t", count)) == [("t", ErrorCode.INVALID_PARTITIONS)]
    assert grow(cluster, NewPartitions("t", 2**31 - 1)) == [("t", ErrorCode.POLICY_VIOLATION)]
    assert grow(cluster, NewPartitions("x", 2)) == [("x", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
    twice = grow(cluster, NewPartitions("t", 6), NewPartitions("t", 7))
    assert twice == [("t", ErrorCode.INVALID_REQUEST)] * 2


def test_added_partitions_can_be_assigned_by_hand() -> None:
    cluster = Cluster(brokers=3)
    create(cluster, NewTopic("t", assignments=(Assignment(0, (1, 2)),)))
    bad = ErrorCode.INVALID_REPLICA_ASSIGNMENT
    for wrong in (((2, 3),), ((2, 3), (1,)), ((2, 9), (1, 2)), ()):
        assert grow(cluster, NewPartitions("t", 3, wrong)) == [("t", bad)]
    assert grow(cluster, NewPartitions("t", 3, ((2, 3), (3, 1)))) == [("t", ErrorCode.NONE)]
    assert [e.replicas for e in cluster.image.topics_by_name["t"].partitions] == [(1, 2), (2, 3), (3, 1)]
