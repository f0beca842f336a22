"""TLS to a peer with a certificate of its own, made by openssl where that is installed."""

import shutil
import ssl
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from ottla.client.connection import Connection
from ottla.client.deadline import Deadline
from ottla.client.failures import AuthenticationFailed, Unreachable
from ottla.client.settings import ClientSettings
from ottla.wire.messages.index import ApiKey
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker

from .conftest import Run
from .fake_broker import FakeBroker

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate")
BROKERS = 20_000
"""Enough for an answer of many TLS records."""


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    directory = tmp_path_factory.mktemp("tls")
    own, key = directory / "own.pem", directory / "key.pem"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=broker"
    names = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(own)]
    subprocess.run([*command.split(), *names], check=True, capture_output=True)
    return own, key


def settings(broker: FakeBroker, more: Mapping[str, str]) -> ClientSettings:
    host, port = broker.address
    return ClientSettings.from_kafka({"bootstrap.servers": f"{host}:{port}", "security.protocol": "SSL", **more})


def test_answers_of_any_size_come_through_tls(run: Run[None], certificate: tuple[Path, Path]) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*certificate)
    many = MetadataResponse(brokers=[MetadataResponseBroker(node, "broker" * 5, 9092) for node in range(BROKERS)])

    async def play() -> None:
        async with FakeBroker({ApiKey.METADATA: lambda asked: asked.answer(many)}, tls=context) as broker:
            trusting = settings(broker, {"ssl.ca.location": str(certificate[0])})
            connection = await Connection.open(broker.address, trusting)
            answer = await connection.ask(MetadataRequest(), Deadline(10))
            assert answer.brokers == many.brokers
            connection.close()
            careless = settings(broker, {"enable.ssl.certificate.verification": "false"})
            (await Connection.open(broker.address, careless)).close()
            with pytest.raises(AuthenticationFailed, match="is not who it says"):
                await Connection.open(broker.address, settings(broker, {}))

    run(play())


def test_a_peer_without_tls_is_not_spoken_to_in_the_clear(run: Run[None], certificate: tuple[Path, Path]) -> None:
    async def play() -> None:
        async with FakeBroker() as broker:
            with pytest.raises(Unreachable):
                more = {"ssl.ca.location": str(certificate[0]), "socket.connection.setup.timeout.ms": "500"}
                await Connection.open(broker.address, settings(broker, more))
            assert broker.asked == []

    run(play())
