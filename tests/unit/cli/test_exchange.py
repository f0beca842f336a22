"""The small client for single requests, against brokers that answer in ways a node of ours does not."""

import socket
import struct
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from ottla.base.errors import ErrorCode
from ottla.cli.brokers import addresses
from ottla.cli.exchange import Exchange, checked
from ottla.cli.failure import Failed
from ottla.client.addresses import address_name
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
                    asked.append(struct.unpack_from(">hh", stream.read(size)))
                    connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield asked, server.getsockname()
        thread.join(10)


def test_a_broker_that_knows_no_names_is_asked_in_its_own_version() -> None:
    with broker([UNSUPPORTED, OLD, ENDED]) as (asked, address), Exchange(address, 10) as exchange:
        assert exchange.ask(EndTxnRequest("mine", 1, 2, True)).error_code == 0
    assert asked == [(ApiKey.API_VERSIONS, 4), (ApiKey.API_VERSIONS, 0), (ApiKey.END_TXN, 1)]


def test_a_broker_that_is_too_old_is_told_by_the_version_it_lacks() -> None:
    refusal = pytest.raises(Failed, match="does not serve end_txn in version 5")
    with broker([UNSUPPORTED, OLD]) as (_, address), Exchange(address, 10) as exchange, refusal:
        exchange.ask(EndTxnRequest("mine", 1, 2, True), at_least=5)


@pytest.mark.parametrize(
    ("answers", "complaint"),
    [
        ([struct.pack(">i", 2**31 - 1)], "does not speak Kafka's protocol: an answer of 2147483647 bytes"),
        ([struct.pack(">ii", 4, 1)], "does not speak Kafka's protocol"),
        ([struct.pack(">i", 100) + b"short"], "did not answer: it closed the connection"),
        ([UNSUPPORTED, UNSUPPORTED], "UNSUPPORTED_VERSION"),
    ],
)
def test_an_answer_that_makes_no_sense_is_a_failure(answers: list[bytes], complaint: str) -> None:
    with broker(answers) as (_, address), pytest.raises(Failed, match=complaint):
        Exchange(address, 10)


def test_addresses_are_read_and_shown() -> None:
    assert addresses("one:1, [::1]:2") == [("one", 1), ("::1", 2)]
    assert [address_name(one) for one in addresses("one:1,[::1]:2")] == ["one:1", "[::1]:2"]


def test_codes_without_a_name_are_told_by_their_number() -> None:
    with pytest.raises(Failed, match="orders-0: error 9999"):
        checked(9999, about="orders-0")
