"""`ottla produce`: lines become records."""

import os
import stat
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated, BinaryIO

import typer
from confluent_kafka import KafkaError, Message, Producer

from ottla.cli.connection import Target, explained, reason
from ottla.cli.failure import INTERRUPTED, Failed, Misused
from ottla.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, CommandConfig, Json, Timeout
from ottla.cli.output import count_of, print_json
from ottla.cli.properties import parse_pairs
from ottla.cli.records import Headers, LineParser, Record, parse_json_line

Parser = Callable[[bytes, int], Record]
POLL_EVERY = 1000
"""Records between two looks at delivery reports: often enough for progress, seldom enough to cost nothing."""


class Acks(StrEnum):
    NONE = "0"
    LEADER = "1"
    ALL = "all"


class Codec(StrEnum):
    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


class InputFormat(StrEnum):
    LINES = "lines"
    JSON = "json"


def register(app: typer.Typer) -> None:
    app.command(name="produce")(produce)


def produce(
    topic: Annotated[str, typer.Argument(show_default=False)],
    file: Annotated[
        Path | None, typer.Option("--file", "-f", exists=True, dir_okay=False, help="Default: stdin.")
    ] = None,
    format_: Annotated[
        InputFormat, typer.Option("--format", help="Plain lines, or what `consume --format json` prints.")
    ] = (InputFormat.LINES),
    key_separator: Annotated[
        str | None, typer.Option("--key-separator", "-K", help="Text between key and value.")
    ] = None,
    headers: Annotated[
        list[str] | None, typer.Option("--header", "-H", metavar="NAME=VALUE", help="Repeatable.")
    ] = None,
    partition: Annotated[int | None, typer.Option("--partition", "-p", min=0, help="Default: by the key.")] = None,
    keep_partitions: Annotated[
        bool, typer.Option("--keep-partitions", help="Take the partition that a JSON line names, not the key's.")
    ] = False,
    null: Annotated[
        str | None, typer.Option("--null", metavar="MARKER", help="A key or value of this text is null.")
    ] = None,
    acks: Annotated[Acks, typer.Option("--acks", help="Whose receipt to wait for.")] = Acks.ALL,
    compression: Annotated[Codec, typer.Option("--compression", "-z")] = Codec.NONE,
    idempotence: Annotated[bool, typer.Option(help="Never write a record twice; needs --acks all.")] = True,
    as_json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 30.0,
) -> int:
    """Send each line of stdin, or of a file, as a record."""
    if format_ is InputFormat.JSON and (key_separator is not None or null is not None):
        raise Misused("--key-separator and --null are for plain lines; JSON has keys and nulls of its own")
    if key_separator == "":
        raise Misused("--key-separator cannot be empty")
    parser = parse_json_line if format_ is InputFormat.JSON else LineParser(_bytes(key_separator), _bytes(null))
    target = Target(bootstrap, command_config, timeout)
    producer = target.producer(
        acks=acks.value,
        compression_type=compression.value,
        enable_idempotence=idempotence and acks is Acks.ALL,
        linger_ms=20,
        message_timeout_ms=int(timeout * 1000),
        queue_buffering_max_kbytes=65536,
    )
    shared = [(name, value.encode()) for name, value in parse_pairs(headers, "--header").items()]
    sending = Sending(topic, target, producer, partition, keep_partitions, list(shared))
    with _input(file) as stream, progress(stream) as advance:
        interrupted = sending.send_all(stream, parser, advance)
    sending.finish(as_json)
    return INTERRUPTED if interrupted else 0


@dataclass
class Sending:
    """One run: what was handed over, what the cluster has taken, and why not if not."""

    topic: str
    target: Target
    producer: Producer
    partition: int | None
    keep_partitions: bool
    shared_headers: Headers
    sent: int = 0
    failed: int = 0
    first_failure: KafkaError | None = None
    taken: Counter[int] = field(default_factory=Counter)

    def send_all(self, stream: BinaryIO, parser: Parser, advance: Callable[[int], None]) -> bool:
        """Returns whether the user interrupted it; what was read until then is still sent."""
        size = 0
        try:
            for number, line in enumerate(stream, 1):
                self._send(self._parsed(parser, line.removesuffix(b"\n").removesuffix(b"\r"), number))
                size += len(line)
                if number % POLL_EVERY == 0:
                    self._look()
                    advance(size)
                    size = 0
        except KeyboardInterrupt:
            return True
        return False

    def _parsed(self, parser: Parser, line: bytes, number: int) -> Record:
        try:
            return parser(line, number)
        except Failed as wrong:
            self._settle()
            raise Failed(f"{wrong}; {count_of(self.sent, 'record')} before it produced to {self.topic}") from None

    def _send(self, record: Record) -> None:
        chosen = record.partition if self.partition is None and self.keep_partitions else self.partition
        while True:
            try:
                with explained(self.target):
                    self.producer.produce(
                        self.topic,
                        record.value,
                        record.key,
                        -1 if chosen is None else chosen,
                        headers=[*self.shared_headers, *record.headers] or None,
                        on_delivery=self._on_delivery,
                        timestamp=record.timestamp or 0,  # 0: now
                    )
                break
            except BufferError:
                self._look(wait_s=0.2)
        self.sent += 1

    def _look(self, wait_s: float = 0) -> None:
        self.producer.poll(wait_s)
        self.target.check_reachable()
        if self.first_failure is not None:
            raise Failed(self._summary())

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.taken[message.partition() or 0] += 1
        else:
            self.failed += 1
            self.first_failure = self.first_failure or error

    def _settle(self) -> None:
        """Wait until the cluster has taken everything, or refused something."""
        left = len(self.producer)
        while left and self.first_failure is None:
            left = self.producer.flush(0.5)
            self.target.check_reachable()
        if self.first_failure is not None:
            raise Failed(self._summary())

    def finish(self, as_json: bool) -> None:
        self._settle()
        if as_json:
            partitions = {str(partition): count for partition, count in sorted(self.taken.items())}
            print_json({"topic": self.topic, "records": self.sent, "partitions": partitions})
        else:
            print(f"{count_of(self.sent, 'record')} produced to {self.topic}")

    def _summary(self) -> str:
        why = reason(self.first_failure) if self.first_failure else ""
        return f"{self.sent - self.taken.total():,} of {self.sent:,} records were not taken: {why}"


@contextmanager
def _input(file: Path | None) -> Iterator[BinaryIO]:
    if file is not None:
        try:
            stream = file.open("rb")
        except OSError as failure:
            raise Failed(f"cannot read {file}: {failure.strerror}") from None
        with stream:
            yield stream
        return
    if sys.stdin.isatty():
        print("one record a line; Ctrl-D ends", file=sys.stderr)
    yield sys.stdin.buffer


@contextmanager
def progress(stream: BinaryIO) -> Iterator[Callable[[int], None]]:
    """A bar over the bytes of a file, a count over those of a pipe; nothing where no person watches or one types."""
    if not sys.stderr.isatty() or stream.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

    status = os.fstat(stream.fileno())
    total = status.st_size if stat.S_ISREG(status.st_mode) else None
    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("produce", total=total)
        yield lambda count: bar.advance(task, count)


def _bytes(text: str | None) -> bytes | None:
    # What the shell could not decode comes as surrogates; this gives the very bytes back.
    return None if text is None else os.fsencode(text)
