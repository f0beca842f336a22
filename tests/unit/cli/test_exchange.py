"""The small client for single requests, against brokers that answer in ways a node of ours does not."""

import socket
import struct
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from ottla.base.errors import ErrorCode
from ottla.cli.brokers import Brokers
from ottla.cli.connection import Target
from ottla.cli.exchange import checked
from ottla.cli.failure import Failed
from ottla.client.addresses import address_name, parse_addresses
from ottla.wire.frame import begin_response, finish_response
from ottla.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.wire.messages.index import ApiKey


def frame(response: ApiVersionsResponse | EndTxnResponse, version: int) -> bytes:
    out = begin_response(1, flexible=False)
    response.encode(out, version)
    finish_response(out)
    return bytes(out)


UNSUPPORTED = frame(ApiVersionsResponse(int(ErrorCode.UNSUPPORTED_VERSION)), 0)
OLD = frame(ApiVersionsResponse(0, [ApiVersion(int(ApiKey.END_TXN), 0, 1)]), 0)
ENDED = frame(EndTxnResponse(), 1)


@contextmanager
def broker(answers: Sequence[bytes]) -> Iterator[tuple[list[tuple[int, int]], tuple[str, int]]]:
    """Gives one answer after the other and hangs up; notes which APIs were asked in which versions."""
    asked: list[tuple[int, int]] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection, connection.makefile("rb") as stream:
                for answer in answers:
                    (size,) = struct.unpack(">i", stream.read(4))
                    key, version, number = struct.unpack_from(">hhi", stream.read(size))
                    asked.append((key, version))
                    connection.sendall(answer[:4] + struct.pack(">i", number) + answer[8:])

        thread = threading.Thread(target=serve)
        thread.start()
        yield asked, server.getsockname()
        thread.join(10)


@contextmanager
def brokers(address: tuple[str, int]) -> Iterator[Brokers]:
    with Brokers(Target(address_name(address), timeout_s=5)) as found:
        yield found


def test_a_broker_that_knows_no_names_is_asked_in_its_own_version() -> None:
    with broker([UNSUPPORTED, OLD, ENDED]) as (asked, address), brokers(address) as found:
        assert found.any().ask(EndTxnRequest("mine", 1, 2, True)).error_code == 0
    assert asked == [(ApiKey.API_VERSIONS, 4), (ApiKey.API_VERSIONS, 0), (ApiKey.END_TXN, 1)]


def test_a_broker_that_is_too_old_is_told_by_the_version_it_lacks() -> None:
    refusal = pytest.raises(Failed, match="does not serve end_txn in version 5")
    with broker([UNSUPPORTED, OLD]) as (_, address), brokers(address) as found, refusal:
        found.any().ask(EndTxnRequest("mine", 1, 2, True), at_least=5)


@pytest.mark.parametrize(
    ("answers", "complaint"),
    [
        ([struct.pack(">ii", 2**31 - 1, 1)], "does not speak Kafka's protocol: an answer of 2147483647 bytes"),
        ([struct.pack(">ii", 4, 1)], "does not speak Kafka's protocol"),
        ([struct.pack(">ii", 100, 1) + b"short"], "closed the connection"),
        ([UNSUPPORTED, UNSUPPORTED], "knows no version of ApiVersions"),
    ],
)
def test_an_answer_that_makes_no_sense_is_a_failure(answers: list[bytes], complaint: str) -> None:
    with broker(answers) as (_, address), brokers(address) as found, pytest.raises(Failed, match=complaint):
        found.any()


def test_what_a_file_says_about_security_is_followed_or_named(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("security.protocol=SASL_SSL\nsasl.mechanism=GSSAPI\n")
    with pytest.raises(Failed, match=r"sasl\.mechanism is one of PLAIN"):
        Brokers(Target("one:1", file))


def test_addresses_are_read_and_shown() -> None:
    assert parse_addresses("one:1, [::1]:2") == [("one", 1), ("::1", 2)]
    assert [address_name(one) for one in parse_addresses("one:1,[::1]:2")] == ["one:1", "[::1]:2"]
    with pytest.raises(Failed, match="'one' is not HOST:PORT"):
        Brokers(Target("one"))


def test_codes_without_a_name_are_told_by_their_number() -> None:
    with pytest.raises(Failed, match="orders-0: error 9999"):
        checked(9999, about="orders-0")
