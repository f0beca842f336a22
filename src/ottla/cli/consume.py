"""`ottla consume`: records become lines."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import typer
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaError, Message, TopicPartition

from ottla.cli.connection import Target, explained, reason
from ottla.cli.failure import Failed, Misused
from ottla.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, CommandConfig, Timeout
from ottla.cli.records import Formatter, formatter
from ottla.cli.times import parse_time

BATCH = 500
WAIT_S = 0.1


def register(app: typer.Typer) -> None:
    app.command(name="consume")(consume)


@dataclass(frozen=True)
class Start:
    """Where to begin in each partition."""

    offset: int | None = None
    """An offset, negative for that many before the end."""
    timestamp_ms: int | None = None
    at_end: bool = False


def consume(
    topic: Annotated[str, typer.Argument(show_default=False)],
    from_beginning: Annotated[
        bool, typer.Option("--from-beginning", "-B", help="The default without --follow.")
    ] = False,
    offset: Annotated[
        str | None, typer.Option("--offset", "-o", help="An offset, `earliest`, `latest`, or -N for the last N.")
    ] = None,
    timestamp: Annotated[
        str | None, typer.Option("--timestamp", "-t", help="From this time on: milliseconds, or 2026-01-31T12:00.")
    ] = None,
    partitions: Annotated[
        list[int] | None, typer.Option("--partition", "-p", min=0, help="Repeatable; default: all.")
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-F", help="Wait for more instead of stopping at the end.")
    ] = False,
    count: Annotated[int | None, typer.Option("--count", "-n", min=1, help="Stop after that many records.")] = None,
    format_: Annotated[
        str, typer.Option("--format", help="raw, json, or a template such as '{partition} {offset} {key}={value}'.")
    ] = "raw",
    as_json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
    null: Annotated[str, typer.Option("--null", help="What is printed for a null key or value.")] = "null",
    uncommitted: Annotated[
        bool, typer.Option("--uncommitted", help="Also records of open and aborted transactions.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 10.0,
) -> int:
    """Print a topic's records: all that are there, or with --follow those that come."""
    start = _start(from_beginning, offset, timestamp, follow)
    line = formatter("json" if as_json else format_, null)
    target = Target(bootstrap, command_config, timeout)
    consumer = target.consumer(
        group_id="ottla-cli",  # librdkafka wants one even where no group is joined and nothing committed
        enable_auto_commit=False,
        enable_partition_eof=True,
        auto_offset_reset="error",
        isolation_level="read_uncommitted" if uncommitted else "read_committed",
    )
    try:
        places = _places(target, consumer, topic, partitions)
        reading = Reading(target, consumer, line, count, follow)
        reading.begin([_position(target, consumer, place, start) for place in places])
        return reading.print_all(sys.stdout.buffer.write, sys.stdout.buffer.flush)
    finally:
        consumer.close()


@dataclass
class Reading:
    target: Target
    consumer: Consumer
    line: Formatter
    left: int | None
    follow: bool
    ends: dict[int, int] = field(default_factory=dict)
    """Partitions not read to the end yet, and their end as it was at the start: a busy topic must not hold us."""

    def begin(self, places: Sequence[TopicPartition]) -> None:
        for place in places:
            _, end = watermarks(self.target, self.consumer, place)
            if self.follow or (place.offset != OFFSET_END and place.offset < end):
                self.ends[place.partition] = end
        with explained(self.target):
            self.consumer.assign([place for place in places if place.partition in self.ends])

    def print_all(self, write: Callable[[bytes], Any], flush: Callable[[], Any]) -> int:
        try:
            while self.ends and self.left != 0:
                with explained(self.target):
                    messages = self.consumer.consume(min(BATCH, self.left or BATCH), WAIT_S)
                for message in messages:
                    self._take(message, write)
                flush()
                self.target.check_reachable()
        except KeyboardInterrupt:
            # Following has no other end than this one.
            return 0 if self.follow else 130
        return 0

    def _take(self, message: Message, write: Callable[[bytes], Any]) -> None:
        partition, error = message.partition(), message.error()
        if error is not None:
            self._on_error(error, partition)
            return
        self.target.down_since = None
        end = self.ends.get(partition)  # type: ignore[arg-type]
        if self.left == 0 or (end is None and not self.follow):
            return
        write(self.line(message))
        if self.left is not None:
            self.left -= 1
        if not self.follow and end is not None and (message.offset() or 0) + 1 >= end:
            del self.ends[partition]  # type: ignore[arg-type]

    def _on_error(self, error: KafkaError, partition: int | None) -> None:
        if error.code() == KafkaError._PARTITION_EOF:
            if not self.follow:
                self.ends.pop(partition, None)  # type: ignore[arg-type]
        elif not error.retriable():
            raise Failed(f"partition {partition}: {reason(error)}" if partition is not None else reason(error))


def _start(from_beginning: bool, offset: str | None, timestamp: str | None, follow: bool) -> Start:
    if from_beginning + (offset is not None) + (timestamp is not None) > 1:
        raise Misused("give one of --from-beginning, --offset and --timestamp")
    if timestamp is not None:
        return Start(timestamp_ms=parse_time(timestamp, "--timestamp"))
    if offset is None:
        return Start(at_end=follow and not from_beginning)
    if offset in ("earliest", "latest"):
        return Start(at_end=offset == "latest")
    try:
        return Start(offset=int(offset))
    except ValueError:
        raise Misused(f"--offset takes a number, `earliest` or `latest`, not {offset!r}") from None


def _places(target: Target, consumer: Consumer, topic: str, wanted: Sequence[int] | None) -> list[TopicPartition]:
    # Asking for one topic by name would create it where the cluster creates topics on demand; a reader must not.
    found = target.metadata(consumer).topics.get(topic)
    if found is None:
        raise Failed(f"there is no topic {topic!r}")
    if found.error is not None:
        raise Failed(f"{topic}: {reason(found.error)}")
    missing = set(wanted or ()) - found.partitions.keys()
    if missing:
        raise Failed(f"{topic} has no partition {min(missing)}; it has {len(found.partitions)}, counted from 0")
    return [TopicPartition(topic, partition) for partition in sorted(set(wanted or found.partitions))]


def watermarks(target: Target, consumer: Consumer, place: TopicPartition) -> tuple[int, int]:
    low, high = target.until_reached(consumer, lambda slice_s: consumer.get_watermark_offsets(place, timeout=slice_s))
    return low, high


def _position(target: Target, consumer: Consumer, place: TopicPartition, start: Start) -> TopicPartition:
    return TopicPartition(place.topic, place.partition, _offset(target, consumer, place, start))


def _offset(target: Target, consumer: Consumer, place: TopicPartition, start: Start) -> int:
    if start.timestamp_ms is not None:
        asked = TopicPartition(place.topic, place.partition, start.timestamp_ms)
        [found] = target.until_reached(consumer, lambda slice_s: consumer.offsets_for_times([asked], timeout=slice_s))
        if found.error is not None:
            raise Failed(f"{place.topic}-{place.partition}: {reason(found.error)}")
        return int(found.offset)
    if start.offset is None:
        return OFFSET_END if start.at_end else OFFSET_BEGINNING
    low, high = watermarks(target, consumer, place)
    if start.offset < 0:
        return max(low, high + start.offset)
    if not low <= start.offset <= high:
        raise Failed(
            f"{place.topic}-{place.partition} has the offsets {low} to {high}, and {start.offset} is not among them"
        )
    return start.offset
