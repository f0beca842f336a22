"""A cluster for the commands to talk to: librdkafka's own mock, on a loopback port."""

import io
import sys
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Producer

from ottla.cli.main import run

Cli = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="session")
def mock_cluster() -> Iterator[str]:
    holder = Producer({"bootstrap.servers": "unused:1", "test.mock.num.brokers": 1, "log_level": 0})
    broker = next(iter(holder.list_topics(timeout=10).brokers.values()))
    yield f"{broker.host}:{broker.port}"
    holder.flush(0)


@pytest.fixture
def ottla(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Runs a command in this process: exit code, stdout, stderr."""

    def call(*arguments: str, stdin: bytes = b"") -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capsys.readouterr()
        code = run(list(arguments))
        out, err = capsys.readouterr()
        return code, out, err

    return call
