"""Filters that are pushed down leave out what nobody wants, and never more."""

from datetime import UTC, datetime, timedelta

from pyspark.sql.datasource import EqualTo, GreaterThan, GreaterThanOrEqual, In, IsNotNull, LessThan, StringContains

from ottla.base.types import TopicName, TopicPartition
from ottla.spark.source.filters import wanted_by
from ottla.spark.source.planning import Range


def ranges() -> list[Range]:
    return [Range(TopicPartition(TopicName(topic), index), 10, 20) for topic in ("a", "b") for index in (0, 1)]


def test_topic_partition_and_offset_cut_what_is_read() -> None:
    wanted, back = wanted_by(
        [
            EqualTo(("topic",), "a"),
            In(("partition",), (1, 7)),
            GreaterThan(("offset",), 11),
            LessThan(("offset",), 15),
            IsNotNull(("offset",)),
        ]
    )
    assert back == []
    assert wanted.within(ranges()) == [Range(TopicPartition(TopicName("a"), 1), 12, 15)]


def test_filters_that_contradict_each_other_leave_nothing() -> None:
    wanted, _ = wanted_by([EqualTo(("topic",), "a"), EqualTo(("topic",), "b")])
    assert wanted.within(ranges()) == []
    wanted, _ = wanted_by([GreaterThanOrEqual(("offset",), 30)])
    assert wanted.within(ranges()) == []


def test_what_is_not_understood_is_left_to_spark() -> None:
    filters = [StringContains(("topic",), "a"), EqualTo(("key",), b"k"), IsNotNull(("value",))]
    wanted, back = wanted_by(filters)
    assert back == filters
    assert wanted.within(ranges()) == ranges()


def test_a_time_says_where_to_begin_and_is_checked_by_spark_all_the_same() -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    filters = [GreaterThanOrEqual(("timestamp",), moment), GreaterThan(("timestamp",), moment - timedelta(days=1))]
    wanted, back = wanted_by(filters)
    assert back == filters
    assert wanted.since_ms == int(moment.timestamp() * 1000) - 1
