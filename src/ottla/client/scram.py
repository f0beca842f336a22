"""SCRAM (RFC 5802, RFC 7677) as Kafka speaks it: no channel binding. Messages in, messages out; knows no socket."""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64decode, b64encode
from binascii import Error as BadBase64

from ottla.client.failures import AuthenticationFailed

HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
ITERATIONS_MIN, ITERATIONS_MAX = 4_096, 1_000_000
"""Fewer would give the password away to whoever poses as the broker; more would stop this client for seconds."""
_NO_BINDING = "n,,"


class ScramClient:
    """`first()`, then `final(what the server said first)`, then `check(what it said last)`."""

    def __init__(self, mechanism: str, username: str, password: str, nonce: str) -> None:
        self._hash = HASHES[mechanism]
        self._password = password.encode()
        self._nonce = nonce
        self._bare = f"n={username.replace('=', '=3D').replace(',', '=2C')},r={nonce}"
        self._server_signature = b""

    def first(self) -> bytes:
        return (_NO_BINDING + self._bare).encode()

    def final(self, server_first: bytes) -> bytes:
        fields = _fields(server_first)
        nonce = fields.get("r", "")
        if not nonce.startswith(self._nonce) or len(nonce) == len(self._nonce):
            raise AuthenticationFailed("the broker's SCRAM nonce does not continue ours")
        try:
            salt, iterations = b64decode(fields["s"], validate=True), int(fields["i"])
        except (KeyError, ValueError, BadBase64):
            raise AuthenticationFailed("the broker's SCRAM challenge cannot be read") from None
        if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
            raise AuthenticationFailed(f"the broker asks for {iterations} SCRAM iterations")
        without_proof = f"c={b64encode(_NO_BINDING.encode()).decode()},r={nonce}"
        said = ",".join((self._bare, server_first.decode(), without_proof)).encode()
        salted = hashlib.pbkdf2_hmac(self._hash, self._password, salt, iterations)
        client_key = self._mac(salted, b"Client Key")
        signature = self._mac(hashlib.new(self._hash, client_key).digest(), said)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        self._server_signature = self._mac(self._mac(salted, b"Server Key"), said)
        return f"{without_proof},p={b64encode(proof).decode()}".encode()

    def check(self, server_final: bytes) -> None:
        """Whether the broker knows the password too."""
        fields = _fields(server_final)
        if "e" in fields:
            raise AuthenticationFailed(f"the broker refuses: {fields['e']}")
        expected = b64encode(self._server_signature).decode()
        if not hmac.compare_digest(fields.get("v", "").encode(), expected.encode()):
            raise AuthenticationFailed("the broker does not know the password")

    def _mac(self, key: bytes, what: bytes) -> bytes:
        return hmac.new(key, what, self._hash).digest()


def _fields(message: bytes) -> dict[str, str]:
    try:
        text = message.decode()
    except UnicodeDecodeError:
        raise AuthenticationFailed("the broker's SCRAM message is not text") from None
    return dict(part.split("=", 1) for part in text.split(",") if "=" in part)
