"""Settings for secured clusters, and SCRAM against the example of RFC 7677 and a server of our own."""

import hashlib
import hmac
from base64 import b64decode, b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.failures import AuthenticationFailed, Misconfigured
from ottla.client.scram import HASHES, ScramClient
from ottla.client.security import Login, Security
from ottla.client.settings import ClientSettings

LOGIN = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "me",
    "sasl.password": "s3cret",
}


def test_scram_agrees_with_the_example_of_rfc_7677() -> None:
    scram = ScramClient("SCRAM-SHA-256", "user", "pencil", "rOprNGfwEbeRWgbNEkqO")
    assert scram.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    final = scram.final(f"r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode())
    assert final == f"c=biws,r={nonce},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=".encode()
    scram.check(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


def serve_scram(mechanism: str, password: str, first: bytes, final: bytes, challenge: bytes) -> bytes:
    """What a server that knows the password says in the end; none of it is shared with the client's code."""
    name = HASHES[mechanism]
    fields = dict(part.split("=", 1) for part in challenge.decode().split(","))
    salted = hashlib.pbkdf2_hmac(name, password.encode(), b64decode(fields["s"]), int(fields["i"]))
    without_proof, proof = final.decode().rsplit(",p=", 1)
    said = b",".join((first[3:], challenge, without_proof.encode()))
    key = hmac.new(salted, b"Client Key", name).digest()
    signature = hmac.new(hashlib.new(name, key).digest(), said, name).digest()
    recovered = bytes(a ^ b for a, b in zip(b64decode(proof), signature, strict=True))
    assert recovered == key
    return b"v=" + b64encode(hmac.new(hmac.new(salted, b"Server Key", name).digest(), said, name).digest())


@given(st.sampled_from(sorted(HASHES)), st.text(max_size=20), st.text(max_size=20), st.binary(min_size=1, max_size=30))
def test_scram_convinces_a_server_and_is_convinced_by_it(
    mechanism: str, username: str, password: str, salt: bytes
) -> None:
    scram = ScramClient(mechanism, username, password, "ours")
    first = scram.first()
    challenge = b"r=ours+theirs,s=" + b64encode(salt) + b",i=4096"
    final = scram.final(challenge)
    scram.check(serve_scram(mechanism, password, first, final, challenge))
    with pytest.raises(AuthenticationFailed):
        scram.check(b"v=" + b64encode(b"x" * 32))


@pytest.mark.parametrize(
    "challenge",
    [b"r=other,s=AAAA,i=4096", b"r=ours,s=AAAA,i=4096", b"r=ours+,s=AAAA,i=1", b"r=ours+,s=AAAA,i=9999999999", b"\xff"],
)
def test_a_challenge_that_would_weaken_the_login_is_refused(challenge: bytes) -> None:
    scram = ScramClient("SCRAM-SHA-256", "me", "secret", "ours")
    scram.first()
    with pytest.raises(AuthenticationFailed):
        scram.final(challenge)


def test_java_s_words_and_librdkafka_s_words_mean_the_same() -> None:
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="me" password="s3\\"cret";'
    java = {"security.protocol": "sasl_plaintext", "sasl.mechanism": "PLAIN", "sasl.jaas.config": jaas}
    assert Security.from_settings(java).login == Login("PLAIN", "me", 's3"cret')
    theirs = {**LOGIN, "sasl.mechanisms": "SCRAM-SHA-512", "sasl.mechanism": ""}
    assert Security.from_settings(theirs).login == Login("SCRAM-SHA-512", "me", "s3cret")


def test_secrets_are_not_shown() -> None:
    settings = ClientSettings.from_kafka({"bootstrap.servers": "one:1", **LOGIN})
    assert settings.security.login is not None
    assert "s3cret" not in repr(settings)


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        ({"security.protocol": "TELEPATHY"}, "security.protocol"),
        ({"sasl.mechanism": "GSSAPI"}, "GSSAPI"),
        ({"sasl.password": None}, "sasl.password"),
        ({"sasl.oauthbearer.config": "x"}, "sasl.oauthbearer.config"),
        ({"ssl.truststore.type": "JKS", "security.protocol": "SSL"}, "PEM"),
        ({"ssl.ca.location": "/nowhere.pem", "security.protocol": "SSL"}, "certificates cannot be read"),
        ({"bootstrap.servers": "one"}, "HOST:PORT"),
        ({"request.timeout.ms": "soon"}, "request.timeout.ms"),
    ],
)
def test_settings_that_cannot_be_followed_are_named(more: dict[str, str | None], complaint: str) -> None:
    given = {
        name: value for name, value in {"bootstrap.servers": "one:1", **LOGIN, **more}.items() if value is not None
    }
    with pytest.raises(Misconfigured, match=complaint):
        ClientSettings.from_kafka({name: value for name, value in given.items() if value is not None})


def test_settings_have_kafka_s_names() -> None:
    settings = ClientSettings.from_kafka(
        {"bootstrap.servers": "one:1,[::1]:2", "request.timeout.ms": 1500, "client.id": "me", "key.serializer": "x"}
    )
    assert settings.bootstrap == (("one", 1), ("::1", 2))
    assert (settings.request_s, settings.client_id, settings.security) == (1.5, "me", Security())
