"""Options of a read: the connector's names and rules, and texts that say what to do."""

import pytest

from ottla.base.types import TopicName, TopicPartition
from ottla.client.offsets import Isolation
from ottla.spark.option_words import BadOption, OptionWords
from ottla.spark.source.options import Assigned, Matching, Named, SourceOptions, parse_source_options
from ottla.spark.source.positions import EARLIEST, LATEST, Edge, Offsets, Since, SinceByPartition

BASE = {"kafka.bootstrap.servers": "here:9092"}


def parsed(is_stream: bool = False, **given: object) -> SourceOptions:
    named = {name: str(value) for name, value in given.items()}
    return parse_source_options(OptionWords({**BASE, "subscribe": "orders", **named}), is_stream)


def place(topic: str, partition: int) -> TopicPartition:
    return TopicPartition(TopicName(topic), partition)


def refused(is_stream: bool = False, **given: object) -> str:
    with pytest.raises(BadOption) as refusal:
        parsed(is_stream, **given)
    return str(refusal.value)


def test_names_have_no_case() -> None:
    options = parse_source_options(OptionWords({"Kafka.Bootstrap.Servers": "h:1", "SUBSCRIBE": "a, b,a"}), False)
    assert options.subscription == Named(("a", "b"))
    assert options.kafka == {"bootstrap.servers": "h:1"}


def test_a_batch_reads_everything_and_a_stream_what_comes() -> None:
    assert (parsed().start, parsed().end) == (Edge(EARLIEST), Edge(LATEST))
    assert parsed(is_stream=True).start == Edge(LATEST)


def test_committed_records_are_read_unless_told_otherwise() -> None:
    assert parsed().isolation is Isolation.READ_COMMITTED
    assert parsed(**{"kafka.isolation.level": "read_uncommitted"}).isolation is Isolation.READ_UNCOMMITTED
    assert "kafka.isolation.level" in refused(**{"kafka.isolation.level": "serializable"})


@pytest.mark.parametrize("given", [{}, {"subscribe": "a", "assign": '{"a":[0]}'}])
def test_exactly_one_option_says_what_to_read(given: dict[str, str]) -> None:
    with pytest.raises(BadOption, match="exactly one of the options assign, subscribe, subscribePattern"):
        parse_source_options(OptionWords({**BASE, **given}), False)


def test_assign_and_pattern_are_understood() -> None:
    assigned = parse_source_options(OptionWords({**BASE, "assign": '{"b":[1],"a":[0,2]}'}), True)
    assert assigned.subscription == Assigned((place("a", 0), place("a", 2), place("b", 1)))
    matching = parse_source_options(OptionWords({**BASE, "subscribePattern": "orders-.*"}), True)
    assert matching.subscription == Matching("orders-.*")


@pytest.mark.parametrize("text", ["{", "[]", '{"a":0}', '{"a":[true]}', '{"a":[-1]}', "{}"])
def test_an_assignment_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(BadOption, match="assign"):
        parse_source_options(OptionWords({**BASE, "assign": text}), False)


def test_a_pattern_that_does_not_compile_is_refused() -> None:
    with pytest.raises(BadOption, match="regular expression"):
        parse_source_options(OptionWords({**BASE, "subscribePattern": "("}), False)


def test_offsets_by_partition_are_understood() -> None:
    start = parsed(is_stream=True, startingOffsets='{"orders":{"0":23,"1":-2,"2":-1}}').start
    assert start == Offsets({place("orders", 0): 23, place("orders", 1): EARLIEST, place("orders", 2): LATEST})


@pytest.mark.parametrize("text", ["soon", '{"a":1}', '{"a":{"0":"1"}}', '{"a":{"x":1}}', '{"a":{"0":-3}}'])
def test_offsets_that_are_none_are_refused(text: str) -> None:
    assert "startingOffsets" in refused(startingOffsets=text)


def test_a_time_for_all_wins_over_times_by_partition_and_both_over_offsets() -> None:
    by_partition = '{"orders":{"0":5}}'
    assert parsed(startingTimestamp=7, startingOffsetsByTimestamp=by_partition).start == Since(7)
    assert parsed(startingOffsetsByTimestamp=by_partition, startingOffsets="earliest").start == SinceByPartition(
        {place("orders", 0): 5}
    )


def test_a_batch_starts_before_the_end_and_ends_behind_the_start() -> None:
    assert "cannot start at the latest" in refused(startingOffsets="latest")
    assert "orders-0" in refused(startingOffsets='{"orders":{"0":-1}}')
    assert "cannot end at the earliest" in refused(endingOffsets="earliest")
    assert "orders-0" in refused(endingOffsets='{"orders":{"0":-2}}')


@pytest.mark.parametrize("name", ["endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"])
def test_a_stream_has_no_end(name: str) -> None:
    assert f"option '{name}' is for batch queries" in refused(is_stream=True, **{name: "1"})


@pytest.mark.parametrize(
    "name",
    [
        "kafka.auto.offset.reset",
        "kafka.key.deserializer",
        "kafka.value.deserializer",
        "kafka.enable.auto.commit",
        "kafka.interceptor.classes",
    ],
)
def test_what_spark_decides_is_not_for_the_client(name: str) -> None:
    assert f"option '{name}' cannot be set" in refused(**{name: "x"})


def test_brokers_must_be_named() -> None:
    with pytest.raises(BadOption, match=r"kafka\.bootstrap\.servers"):
        parse_source_options(OptionWords({"subscribe": "a"}), False)


def test_limits_belong_to_streams_and_fit_each_other() -> None:
    limits = parsed(True, maxOffsetsPerTrigger=9, minOffsetsPerTrigger=2, maxTriggerDelay="2m").limits
    assert (limits.offsets_max, limits.offsets_min, limits.delay_ms_max) == (9, 2, 120_000)
    assert "minOffsetsPerTrigger" in refused(True, maxOffsetsPerTrigger=1, minOffsetsPerTrigger=2)
    assert parsed(maxOffsetsPerTrigger=9).limits.offsets_max is None


@pytest.mark.parametrize("text", ["0", "-3", "many"])
@pytest.mark.parametrize("name", ["maxOffsetsPerTrigger", "minPartitions", "maxRecordsPerPartition"])
def test_counts_are_positive_numbers(name: str, text: str) -> None:
    assert name in refused(True, **{name: text})


@pytest.mark.parametrize("text", ["15 m", "m", "1.5s", "3 weeks"])
def test_times_are_written_as_spark_writes_them(text: str) -> None:
    if text == "15 m":
        assert parsed(True, maxTriggerDelay=text).limits.delay_ms_max == 900_000
    else:
        assert "maxTriggerDelay" in refused(True, maxTriggerDelay=text)


def test_columns_can_be_chosen_and_headers_are_opt_in() -> None:
    assert "headers" not in parsed().columns
    assert parsed(includeHeaders="true").columns[-1] == "headers"
    assert parsed(columns="offset, VALUE").columns == ("value", "offset")
    assert "'body'" in refused(columns="body")


def test_a_misspelt_option_is_noticed_and_a_strange_one_passes() -> None:
    assert "'startingOffsets' is meant" in refused(startingOffset="earliest")
    assert parsed(path="/somewhere", groupIdPrefix="x").group is None


def test_a_group_shows_the_progress_of_streams_only() -> None:
    assert parsed(True, group="billing").group == "billing"
    assert "streaming" in refused(group="billing")
