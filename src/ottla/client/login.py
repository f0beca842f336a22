"""SASL over a fresh connection: SaslHandshake, then one or two rounds of SaslAuthenticate."""

from __future__ import annotations

import secrets
from typing import Any, Protocol

from ottla.base.errors import ErrorCode
from ottla.client.deadline import Deadline
from ottla.client.failures import AuthenticationFailed, ConnectionLost, check
from ottla.client.scram import ScramClient
from ottla.client.security import PLAIN, Login
from ottla.client.versions import ANY, Span
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest
from ottla.wire.primitives import Message

_NONCE_BYTES = 24
_FRAMED = Span(1)
"""From here on the mechanism's messages travel in Kafka's own requests (KIP-152)."""


class Asked(Protocol):
    name: str

    async def ask(self, request: Message, deadline: Deadline, span: Span = ANY) -> Any: ...


async def log_in(connection: Asked, login: Login, deadline: Deadline) -> float:
    """How many seconds the login is good for; 0 if for ever."""
    hello = await connection.ask(SaslHandshakeRequest(login.mechanism), deadline, _FRAMED)
    if hello.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        known = ", ".join(hello.mechanisms)
        raise AuthenticationFailed(f"{connection.name} does not know {login.mechanism}, but {known}")
    check(hello.error_code, about=connection.name)
    if login.mechanism == PLAIN:
        answer = await _step(connection, f"\0{login.username}\0{login.password}".encode(), deadline)
    else:
        scram = ScramClient(login.mechanism, login.username, login.password, secrets.token_urlsafe(_NONCE_BYTES))
        challenge = await _step(connection, scram.first(), deadline)
        answer = await _step(connection, scram.final(bytes(challenge.auth_bytes)), deadline)
        scram.check(bytes(answer.auth_bytes))
    return answer.session_lifetime_ms / 1000


async def _step(connection: Asked, message: bytes, deadline: Deadline) -> SaslAuthenticateResponse:
    try:
        answer: SaslAuthenticateResponse = await connection.ask(SaslAuthenticateRequest(message), deadline)
    except ConnectionLost as lost:
        raise AuthenticationFailed(f"{connection.name} ended the connection during the login: {lost}") from None
    if answer.error_code:
        raise AuthenticationFailed(f"{connection.name} refuses the login: {answer.error_message or answer.error_code}")
    return answer
