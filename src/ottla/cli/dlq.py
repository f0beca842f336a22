"""`ottla dlq …`: records that a pipeline could not read: which there are, why, and once more."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition

from ottla.base import dead_letters as words
from ottla.cli.connection import Target, explained, reason
from ottla.cli.failure import Failed, Misused
from ottla.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, CommandConfig, Json, Timeout, Yes, confirm
from ottla.cli.output import count_of, print_json, print_table
from ottla.cli.places import parse_wanted
from ottla.cli.records import Headers, value_json
from ottla.cli.times import time_text

GROUP = "ottla-dlq-replay"
"""The consumer group whose offsets say what has been replayed."""
_BATCH = 500
_WAIT_S = 0.2
_SHOWN_CHARS_MAX = 120

Topic = Annotated[str, typer.Argument(metavar="TOPIC[:P,…]", show_default=False, help="The topic of the dead letters.")]
Count = Annotated[int | None, typer.Option("--count", "-n", min=1, help="No more than that many.")]
Error = Annotated[str | None, typer.Option("--error", metavar="TEXT", help="Only those with this text in the error.")]


def register(app: typer.Typer) -> None:
    letters = typer.Typer(help="Dead letters: what a pipeline could not read, and why.", no_args_is_help=True)
    letters.command(name="list")(list_)
    letters.command(name="show")(show)
    letters.command(name="replay")(replay)
    app.add_typer(letters, name="dlq")


@dataclass(frozen=True, slots=True)
class Letter:
    """A record of a dead-letter topic, its story told apart from its own headers."""

    message: Message
    headers: Headers
    story: dict[str, str]

    @classmethod
    def of(cls, message: Message) -> "Letter":
        given: Any = message.headers() or []
        own = [(name, value) for name, value in given if not name.startswith(words.PREFIX)]
        story = {
            name.removeprefix(words.PREFIX): (value or b"").decode(errors="replace")
            for name, value in given
            if name.startswith(words.PREFIX)
        }
        return cls(message, own, story)

    def as_json(self) -> dict[str, Any]:
        return {
            "partition": self.message.partition(),
            "offset": self.message.offset(),
            "timestamp": self.message.timestamp()[1],
            **self.story,
            **value_json("key", self.message.key()),
            **value_json("value", self.message.value()),
            "headers": [{"name": name, **value_json("value", value)} for name, value in self.headers],
        }


def list_(
    as_json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 10.0,
) -> None:
    """List the topics of dead letters (those that end in .dlq), and how many letters are left to replay."""
    target = Target(bootstrap, command_config, timeout)
    with _reading(target) as consumer:
        topics = target.metadata(consumer).topics
        found = [_counted(target, consumer, name) for name in sorted(topics) if name.endswith(words.SUFFIX)]
    if as_json:
        print_json(found)
    else:
        print_table(["TOPIC", "OFFSETS", "NOT REPLAYED"], [list(one.values()) for one in found])


def show(
    topic: Topic,
    count: Count = None,
    error: Error = None,
    summary: Annotated[bool, typer.Option("--summary", help="Only how often each error stands there.")] = False,
    as_json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 10.0,
) -> None:
    """Show dead letters: where each came from, why it could not be read, and what it was."""
    target = Target(bootstrap, command_config, timeout)
    with _reading(target) as consumer:
        starts = _places(target, consumer, topic, OFFSET_BEGINNING)
        found = list(_letters(target, consumer, starts, count, error))
    if summary:
        errors = Counter((letter.story.get("topic", ""), letter.story.get("error", "")) for letter in found)
        rows = [{"count": number, "topic": came, "error": why} for (came, why), number in errors.most_common()]
        print_json(rows) if as_json else print_table(["COUNT", "FROM", "ERROR"], [list(row.values()) for row in rows])
    elif as_json:
        print_json([letter.as_json() for letter in found])
    else:
        print_table(["LETTER", "FROM", "WHEN", "ERROR", "KEY", "VALUE"], [_row(letter) for letter in found])


def replay(
    topic: Topic,
    count: Count = None,
    error: Error = None,
    to: Annotated[str | None, typer.Option("--to", metavar="TOPIC", help="Not to where they came from.")] = None,
    from_beginning: Annotated[
        bool, typer.Option("--from-beginning", "-B", help="Also what was replayed before.")
    ] = False,
    yes: Yes = False,
    as_json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 30.0,
) -> None:
    """Send dead letters to the topics they came from, as they were, each once.

    Records and progress are written in one transaction, so that a replay that is cut off can simply be repeated. Replay
    when the reason is gone: the pipeline reads them again, and what it still cannot read comes back.
    """
    if error is not None and not from_beginning:
        raise Misused("--error leaves letters out, so progress cannot be kept; say --from-beginning, too")
    target = Target(bootstrap, command_config, timeout)
    with _reading(target) as consumer:
        starts = _places(target, consumer, topic, OFFSET_BEGINNING if from_beginning else None)
        found = list(_letters(target, consumer, starts, count, error))
        if not found:
            print_json({}) if as_json else print(f"{topic}: nothing to replay")
            return
        lost = [letter for letter in found if to is None and "topic" not in letter.story]
        if lost:
            raise Failed(f"{topic}: where {count_of(len(lost), 'letter')} came from is not told; use --to TOPIC")
        where = Counter(to or letter.story["topic"] for letter in found)
        told = ", ".join(f"{count_of(number, 'record')} to {name}" for name, number in where.items())
        confirm(f"Replay {told}?", yes)
        _send(target, consumer, found, to, keeps_progress=error is None)
    print_json(dict(where)) if as_json else print(f"{topic}: {told}")


def _send(target: Target, consumer: Consumer, found: Sequence[Letter], to: str | None, keeps_progress: bool) -> None:
    name = f"{GROUP}.{found[0].message.topic()}"
    producer = target.producer(transactional_id=name, transaction_timeout_ms=60_000)
    failures: list[KafkaError] = []
    with explained(target, name):
        producer.init_transactions(target.timeout_s)
        producer.begin_transaction()
        for letter in found:
            _produce(producer, letter, to or letter.story["topic"], failures)
        producer.flush(target.timeout_s)
        if failures:
            producer.abort_transaction(target.timeout_s)
            raise Failed(f"nothing was replayed: {reason(failures[0])}")
        if keeps_progress:
            ends = {letter.message.partition(): (letter.message.offset() or 0) + 1 for letter in found}
            offsets = [TopicPartition(found[0].message.topic() or "", at or 0, end) for at, end in ends.items()]
            producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), target.timeout_s)
        producer.commit_transaction(target.timeout_s)


def _produce(producer: Producer, letter: Letter, topic: str, failures: list[KafkaError]) -> None:
    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failures.append(error)

    while True:
        try:
            producer.produce(
                topic,
                letter.message.value(),
                letter.message.key(),
                headers=list(letter.headers) or None,
                on_delivery=delivered,
            )
            producer.poll(0)
            return
        except BufferError:
            producer.poll(_WAIT_S)


def _reading(target: Target) -> "_Closing":
    return _Closing(
        target.consumer(
            group_id=GROUP,
            enable_auto_commit=False,
            enable_partition_eof=True,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        )
    )


class _Closing:
    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer

    def __enter__(self) -> Consumer:
        return self._consumer

    def __exit__(self, *error: object) -> None:
        self._consumer.close()


def _places(target: Target, consumer: Consumer, topic: str, start: int | None) -> list[TopicPartition]:
    """Where to begin: at this offset, or where the last replay ended."""
    name, wanted = parse_wanted(topic, "TOPIC")
    found = target.metadata(consumer).topics.get(name)
    if found is None or found.error is not None:
        raise Failed(f"there is no topic {name}")
    missing = set(wanted or ()) - found.partitions.keys()
    if missing:
        raise Failed(f"{name} has no partition {min(missing)}")
    places = [TopicPartition(name, partition) for partition in sorted(wanted or found.partitions)]
    if start is None:
        return _committed(target, consumer, places)
    return [TopicPartition(place.topic, place.partition, start) for place in places]


def _committed(target: Target, consumer: Consumer, places: list[TopicPartition]) -> list[TopicPartition]:
    answered = target.until_reached(consumer, lambda slice_s: consumer.committed(places, timeout=slice_s))
    return [
        TopicPartition(one.topic, one.partition, one.offset if one.offset >= 0 else OFFSET_BEGINNING)
        for one in answered
    ]


def _letters(
    target: Target, consumer: Consumer, starts: list[TopicPartition], count: int | None, error: str | None
) -> Iterator[Letter]:
    """What is there now, up to a number."""
    left = {place.partition for place in starts}
    number = 0
    with explained(target):
        consumer.assign(starts)
    while left:
        with explained(target):
            messages = consumer.consume(_BATCH, _WAIT_S)
        for message in messages:
            failure = message.error()
            if failure is None:
                target.down_since = None
                letter = Letter.of(message)
                if message.partition() in left and (error is None or error in letter.story.get("error", "")):
                    yield letter
                    number += 1
                    if number == count:
                        return
            elif failure.code() == KafkaError._PARTITION_EOF:
                left.discard(message.partition() or 0)
            elif not failure.retriable():
                raise Failed(reason(failure))
        target.check_reachable()


def _counted(target: Target, consumer: Consumer, topic: str) -> dict[str, Any]:
    """Offsets, not records: markers of transactions count as well, in both numbers alike."""
    there = left = 0
    for place in _places(target, consumer, topic, None):
        low, high = _ends(target, consumer, place)
        there += high - low
        left += high - max(place.offset if place.offset >= 0 else low, low)
    return {"topic": topic, "offsets": there, "not_replayed": left}


def _ends(target: Target, consumer: Consumer, place: TopicPartition) -> tuple[int, int]:
    low, high = target.until_reached(consumer, lambda slice_s: consumer.get_watermark_offsets(place, timeout=slice_s))
    return low, high


def _row(letter: Letter) -> list[object]:
    story = letter.story
    came = f"{story.get('topic', '')}-{story.get('partition', '')}@{story.get('offset', '')}"
    when = story.get("timestamp", "")
    texts = [_short(letter.message.key()), _short(letter.message.value())]
    place = f"{letter.message.partition()}@{letter.message.offset()}"
    return [place, came, time_text(int(when)) if when.isdecimal() else "", story.get("error", ""), *texts]


def _short(data: bytes | None) -> str | None:
    if data is None:
        return None
    text = data[: _SHOWN_CHARS_MAX * 4].decode(errors="backslashreplace")
    printable = "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)
    return printable if len(printable) <= _SHOWN_CHARS_MAX else f"{printable[:_SHOWN_CHARS_MAX]}…"
