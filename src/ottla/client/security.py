"""TLS and SASL from settings with Kafka's names, Java's or librdkafka's. What is secret is never shown."""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field

from ottla.client.failures import Misconfigured
from ottla.client.scram import HASHES

PLAIN = "PLAIN"
MECHANISMS = (PLAIN, *HASHES)
_PROTOCOLS = {
    "PLAINTEXT": (False, False),
    "SSL": (True, False),
    "SASL_PLAINTEXT": (False, True),
    "SASL_SSL": (True, True),
}
"""Whether each has TLS, and SASL."""
_JAAS = re.compile(r'(username|password)\s*=\s*"((?:[^"\\]|\\.)*)"')
_TRUSTED = ("ssl.ca.location", "ssl.truststore.location")
_TRUSTED_TEXT = ("ssl.ca.pem", "ssl.truststore.certificates")
_OWN = ("ssl.certificate.location", "ssl.keystore.location")
_FOLLOWED = {
    *_TRUSTED,
    *_TRUSTED_TEXT,
    *_OWN,
    "ssl.key.location",
    "ssl.key.password",
    "ssl.truststore.type",
    "ssl.keystore.type",
    "ssl.endpoint.identification.algorithm",
    "sasl.mechanism",
    "sasl.mechanisms",
    "sasl.username",
    "sasl.password",
    "sasl.jaas.config",
    "security.protocol",
}


@dataclass(frozen=True)
class Login:
    mechanism: str
    username: str
    password: str = field(repr=False)


@dataclass(frozen=True)
class Security:
    tls: ssl.SSLContext | None = None
    login: Login | None = None

    @classmethod
    def from_settings(cls, settings: Mapping[str, str]) -> Security:
        unknown = sorted(
            name for name in settings if name.startswith(("ssl.", "sasl.", "security.")) and name not in _FOLLOWED
        )
        if unknown:
            raise Misconfigured(f"this client does not follow {', '.join(unknown)}")
        protocol = settings.get("security.protocol", "PLAINTEXT").upper()
        if protocol not in _PROTOCOLS:
            raise Misconfigured(f"security.protocol is one of {', '.join(_PROTOCOLS)}, not {protocol!r}")
        has_tls, has_sasl = _PROTOCOLS[protocol]
        return cls(_tls(settings) if has_tls else None, _login(settings) if has_sasl else None)


def with_jaas_unfolded(given: Mapping[str, str]) -> dict[str, str]:
    """Java's one text for a login, which existing client files have, as the two settings that others use."""
    settings = dict(given)
    jaas = settings.pop("sasl.jaas.config", None)
    if jaas is not None:
        for name, value in _JAAS.findall(jaas):
            settings.setdefault(f"sasl.{name}", re.sub(r"\\(.)", r"\1", value))
    return settings


def _login(given: Mapping[str, str]) -> Login:
    settings = with_jaas_unfolded(given)
    mechanism = (settings.get("sasl.mechanism") or settings.get("sasl.mechanisms") or "").upper()
    if mechanism not in MECHANISMS:
        raise Misconfigured(f"sasl.mechanism is one of {', '.join(MECHANISMS)}, not {mechanism!r}")
    if "sasl.username" not in settings or "sasl.password" not in settings:
        raise Misconfigured("a login needs sasl.username and sasl.password, or sasl.jaas.config")
    return Login(mechanism, settings["sasl.username"], settings["sasl.password"])


def _tls(settings: Mapping[str, str]) -> ssl.SSLContext:
    for name in ("ssl.truststore.type", "ssl.keystore.type"):
        if settings.get(name, "PEM").upper() != "PEM":
            raise Misconfigured(f"{name} must be PEM: this client reads no Java key stores")
    cafile, cadata = _first(settings, _TRUSTED), _first(settings, _TRUSTED_TEXT)
    try:
        context = ssl.create_default_context(cafile=cafile, cadata=cadata)
        if (own := _first(settings, _OWN)) is not None:
            context.load_cert_chain(own, settings.get("ssl.key.location"), settings.get("ssl.key.password", ""))
    except (OSError, ssl.SSLError) as failure:
        raise Misconfigured(f"the certificates cannot be read: {failure}") from None
    if settings.get("enable.ssl.certificate.verification", "true").lower() == "false":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if settings.get("ssl.endpoint.identification.algorithm", "https").lower() in ("", "none"):
        context.check_hostname = False
    return context


def _first(settings: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    return next((settings[name] for name in names if settings.get(name)), None)
