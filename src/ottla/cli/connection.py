"""Clients of any Kafka cluster, and their failures in words."""

import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as StillWaiting
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, ClusterMetadata

from ottla.base.errors import ErrorCode
from ottla.cli.failure import Failed, Unreachable
from ottla.cli.properties import read_settings
from ottla.client.security import with_jaas_unfolded

T = TypeVar("T")

Client = AdminClient | Consumer
CLIENT_ID = "ottla-cli"
UNREACHABLE_FOR_S_MAX = 3.0
"""A cluster of which no broker answered for this long is not there; a node that is just starting is."""

_CONNECTING = re.compile(r"^Connect to \S+ failed: ")


@dataclass
class Target:
    """A cluster, how to get in, and how patient to be; remembers what the client library complained about."""

    bootstrap: str
    command_config: Path | None = None
    timeout_s: float = 10.0
    trouble: str = ""
    down_since: float | None = None

    def settings(self, **own: Any) -> dict[str, Any]:
        given = read_settings(self.command_config) if self.command_config else {}
        return {
            "client.id": CLIENT_ID,
            **with_jaas_unfolded(given),
            "bootstrap.servers": self.bootstrap,
            # What goes wrong reaches the user as our one line; librdkafka's own log lines would only repeat it.
            "log_level": 0,
            "error_cb": self._on_error,
            **{name.replace("_", "."): value for name, value in own.items()},
        }

    def admin(self) -> AdminClient:
        with explained(self):
            return AdminClient(self.settings())

    def producer(self, **settings: Any) -> Producer:
        with explained(self):
            return Producer(self.settings(**settings))

    def consumer(self, **settings: Any) -> Consumer:
        with explained(self):
            return Consumer(self.settings(**settings))

    def outcome(self, future: "Future[T]", admin: AdminClient, about: str = "") -> T:
        """What an admin call answered. Polling in between is what brings connection errors to `_on_error`."""
        deadline = time.monotonic() + self.timeout_s
        while time.monotonic() < deadline:
            try:
                with explained(self, about):
                    return future.result(timeout=0.1)
            except StillWaiting:
                admin.poll(0)
                self.check_reachable()
        raise self.lost("no answer in time")

    def refusal(self, future: "Future[Any]", admin: AdminClient) -> KafkaError | None:
        """The error by which the cluster refused an admin call; a lost connection still raises."""
        try:
            self.outcome(future, admin)
        except Denied as denied:
            return denied.error
        return None

    def until_reached(self, client: Client, ask: Callable[[float], T]) -> T:
        """A blocking call, tried in slices until it answers, the patience ends or nobody is there."""
        deadline = time.monotonic() + self.timeout_s
        while True:
            left_s = deadline - time.monotonic()
            try:
                with explained(self):
                    return ask(max(0.1, min(1.0, left_s)))
            except Denied:
                raise
            except Failed:
                client.poll(0)
                self.check_reachable()
                if left_s <= 1.0:
                    raise

    def metadata(self, client: Client) -> ClusterMetadata:
        """Brokers, topics and partitions."""
        return self.until_reached(client, lambda slice_s: client.list_topics(timeout=slice_s))

    def check_reachable(self) -> None:
        if self.down_since is not None and time.monotonic() - self.down_since > UNREACHABLE_FOR_S_MAX:
            raise Unreachable(self.bootstrap, self.trouble or "no broker answers")

    def lost(self, what: str) -> Failed:
        """Why there is no answer: nobody is there, or somebody who takes long."""
        if self.trouble or self.down_since is not None:
            return Unreachable(self.bootstrap, self.trouble or what)
        return Failed(f"{self.bootstrap}: {what}; --timeout SECONDS waits longer")

    def _on_error(self, error: KafkaError) -> None:
        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            self.down_since = self.down_since or time.monotonic()
        else:
            self.trouble = _CONNECTING.sub("", reason(error))


class Denied(Failed):
    """The cluster answered, and the answer was no."""

    def __init__(self, error: KafkaError, about: str = "") -> None:
        super().__init__(f"{about}: {reason(error)}" if about else reason(error))
        self.error = error


@contextmanager
def explained(target: Target, about: str = "") -> Iterator[None]:
    """Turns the client library's exceptions into one line, which names what the call was about."""
    try:
        yield
    except KafkaException as failure:
        error = failure.args[0]
        if not isinstance(error, KafkaError):
            raise Failed(str(error)) from None
        if error.code() in _LOST:
            raise target.lost(reason(error)) from None
        raise Denied(error, about) from None


_LOST = {KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError._ALL_BROKERS_DOWN, KafkaError._RESOLVE}


def reason(error: KafkaError) -> str:
    """The broker's own words under the name that Kafka has for the error, without librdkafka's prefixes."""
    text = re.sub(r"^(?:\w+://)?[^\s/]+:\d+/\w+: |^(?:Broker|Local): ", "", error.str() or "")
    text = re.sub(r" \(after \d+ms in state \w+.*\)$", "", text).strip()
    if error.code() < 0:
        return text or error.name()
    known = error.code() in ErrorCode.__members__.values()
    name = ErrorCode(error.code()).name if known else error.name()
    return f"{name}: {text}" if text else name
