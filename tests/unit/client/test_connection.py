"""One connection, to brokers that do what brokers should not."""

import asyncio
from typing import Any

import pytest

from ottla.base.errors import ErrorCode
from ottla.client.connection import Connection
from ottla.client.deadline import Deadline
from ottla.client.failures import AuthenticationFailed, ConnectionLost, Nonsense, NotAnswered, Unreachable, Unsupported
from ottla.client.security import Login, Security
from ottla.client.settings import ClientSettings
from ottla.client.versions import Span
from ottla.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.wire.messages.index import ApiKey
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ottla.wire.messages.sasl_handshake import SaslHandshakeResponse

from .conftest import Run
from .fake_broker import Answer, Asked, FakeBroker, hang_up

END = EndTxnRequest("mine", 1, 2, True)


def soon() -> Deadline:
    return Deadline(10)


async def connect(broker: FakeBroker, **settings: Any) -> Connection:
    return await Connection.open(broker.address, ClientSettings(bootstrap=(broker.address,), **settings))


def ended(asked: Asked) -> bytes:
    return asked.answer(EndTxnResponse(producer_epoch=asked.request.producer_epoch))  # type: ignore[union-attr]


def old(asked: Asked) -> bytes:
    if asked.version > 0:
        return asked.answer(ApiVersionsResponse(int(ErrorCode.UNSUPPORTED_VERSION)), 0)
    return asked.answer(ApiVersionsResponse(0, [ApiVersion(int(ApiKey.END_TXN), 0, 1)]), 0)


def test_a_broker_that_knows_no_names_is_asked_in_its_own_version(run: Run[None]) -> None:
    async def play() -> None:
        async with FakeBroker({ApiKey.API_VERSIONS: old, ApiKey.END_TXN: ended}) as broker:
            connection = await connect(broker)
            await connection.ask(END, soon())
            with pytest.raises(Unsupported, match="does not serve end_txn in version 5"):
                await connection.ask(END, soon(), Span(5))
            with pytest.raises(Unsupported, match="does not serve metadata"):
                await connection.ask(MetadataRequest(), soon())
            connection.close()
        versions = [(asked.key, asked.version) for asked in broker.asked]
        assert versions == [(ApiKey.API_VERSIONS, 4), (ApiKey.API_VERSIONS, 0), (ApiKey.END_TXN, 1)]

    run(play())


def test_requests_are_under_way_together_and_each_gets_its_own_answer(run: Run[None]) -> None:
    async def play() -> None:
        held: list[Asked] = []

        def hold(asked: Asked) -> bytes | None:
            held.append(asked)
            # Not in order: what counts is the number.
            return b"".join(ended(one) for one in reversed(held)) if len(held) == 10 else None

        async with FakeBroker({ApiKey.END_TXN: hold}) as broker:
            connection = await connect(broker)
            answers = await asyncio.gather(
                *(connection.ask(EndTxnRequest("mine", 1, epoch, True), soon()) for epoch in range(10))
            )
            assert [answer.producer_epoch for answer in answers] == list(range(10))
            assert connection.is_idle
            connection.close()

    run(play())


def huge(asked: Asked) -> bytes:
    return (2**31 - 1).to_bytes(4, "big")


def to_nobody(asked: Asked) -> bytes:
    return asked.answer(EndTxnResponse(), number=asked.number + 77)


def garbled(asked: Asked) -> bytes:
    return (6).to_bytes(4, "big") + asked.number.to_bytes(4, "big") + b"\xff\xff"


def half(asked: Asked) -> None:
    asked.writer.write(ended(asked)[:9])
    asked.writer.close()


@pytest.mark.parametrize(
    ("answer", "kind", "complaint"),
    [
        (hang_up, ConnectionLost, "closed the connection"),
        (half, ConnectionLost, "closed the connection"),
        (huge, Nonsense, "an answer of 2147483647 bytes"),
        (to_nobody, Nonsense, "which was not made"),
        (garbled, Nonsense, "does not speak Kafka's protocol"),
    ],
)
def test_when_the_connection_dies_everybody_who_waits_is_told(
    run: Run[None], answer: Answer, kind: type[ConnectionLost], complaint: str
) -> None:
    async def play() -> None:
        async with FakeBroker({ApiKey.END_TXN: answer}) as broker:
            connection = await connect(broker)
            failures = await asyncio.gather(
                connection.ask(MetadataRequest(), soon()),
                connection.ask(END, soon()),
                connection.ask(MetadataRequest(), soon()),
                return_exceptions=True,
            )
            for failure in failures:
                assert isinstance(failure, kind)
                assert complaint in str(failure)
                assert failure.was_sent
            assert not connection.is_open
            with pytest.raises(ConnectionLost) as late:
                await connection.ask(END, soon())
            assert not late.value.was_sent

    run(play())


@pytest.mark.parametrize("is_slow", [False, True])
def test_a_silent_broker_loses_its_connection(run: Run[None], is_slow: bool) -> None:
    async def play() -> None:
        async with FakeBroker() as broker:
            connection = await connect(broker, request_s=0.2)
            with pytest.raises(NotAnswered, match=r"did not answer within 0\.2 s"):
                await connection.ask(END, Deadline(0.2) if is_slow else soon(), is_slow=is_slow)
            assert not connection.is_open

    run(play())


def test_whoever_has_no_time_left_leaves_the_connection_to_others(run: Run[None]) -> None:
    async def play() -> None:
        async def late(asked: Asked) -> bytes:
            await asyncio.sleep(0.3)
            return asked.answer(MetadataResponse())

        async with FakeBroker({ApiKey.METADATA: late, ApiKey.END_TXN: ended}) as broker:
            connection = await connect(broker)
            with pytest.raises(NotAnswered):
                await connection.ask(MetadataRequest(), Deadline(0.05))
            assert connection.is_open
            assert (await connection.ask(END, soon())).producer_epoch == 2  # behind the late answer, which is dropped
            connection.close()

    run(play())


def test_a_broker_that_is_not_there_or_does_not_answer_is_unreachable_in_time(run: Run[None]) -> None:
    async def play() -> None:
        async with FakeBroker() as broker:
            gone = broker.address
        with pytest.raises(Unreachable, match="cannot reach"):
            await Connection.open(gone, ClientSettings(bootstrap=(gone,)))
        async with FakeBroker({ApiKey.API_VERSIONS: lambda asked: None}) as mute:
            with pytest.raises(NotAnswered):
                await connect(mute, connect_s=0.2)

    run(play())


def test_a_login_is_made_before_anything_else_and_its_refusal_told(run: Run[None]) -> None:
    def judge(asked: Asked) -> bytes:
        assert isinstance(asked.request, SaslAuthenticateRequest)
        if bytes(asked.request.auth_bytes) == b"\0me\0right":
            return asked.answer(SaslAuthenticateResponse(session_lifetime_ms=1))
        return asked.answer(SaslAuthenticateResponse(58, "no such user"))

    async def play() -> None:
        answers: dict[int, Answer] = {
            ApiKey.SASL_HANDSHAKE: lambda asked: asked.answer(SaslHandshakeResponse(0, ["PLAIN"])),
            ApiKey.SASL_AUTHENTICATE: judge,
        }
        async with FakeBroker(answers) as broker:
            connection = await connect(broker, security=Security(login=Login("PLAIN", "me", "right")))
            await asyncio.sleep(0.01)
            assert not connection.is_open  # the login was good for a millisecond
            connection.close()
            with pytest.raises(AuthenticationFailed, match="no such user") as refusal:
                await connect(broker, security=Security(login=Login("PLAIN", "me", "wr0ng")))
            assert "wr0ng" not in str(refusal.value)

    run(play())
