"""The client's settings: Kafka's names where Kafka has one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ottla.client.addresses import Address, parse_addresses
from ottla.client.failures import Misconfigured
from ottla.client.security import Security

FRAME_BYTES_MAX = 256 * 1024 * 1024
"""No answer is larger. A fetch asks for less, but gets at least one batch, however large."""


@dataclass(frozen=True, kw_only=True)
class ClientSettings:
    bootstrap: tuple[Address, ...]
    client_id: str = "ottla"
    connect_s: float = 10.0
    request_s: float = 30.0
    """A broker that has not answered for so long is given up; what waits longer by intent gets this on top."""
    patience_s: float = 120.0
    """How long one call may take, all its attempts together."""
    backoff_s: float = 0.05
    backoff_s_max: float = 1.0
    absence_s: float = 5.0
    """For how long a topic that is not there may be one that has just been made."""
    frame_bytes_max: int = FRAME_BYTES_MAX
    security: Security = field(default_factory=Security)

    def __post_init__(self) -> None:
        if not self.bootstrap:
            raise Misconfigured("bootstrap.servers names no broker")

    @classmethod
    def from_kafka(cls, settings: Mapping[str, object]) -> ClientSettings:
        """Of what is not about connections, such as serializers, nothing is looked at."""
        texts = {name: str(value) for name, value in settings.items()}
        if "bootstrap.servers" not in texts:
            raise Misconfigured("bootstrap.servers is missing")
        seconds = {
            field_name: _seconds(name, texts[name]) for name, field_name in _MILLISECONDS.items() if name in texts
        }
        return cls(
            bootstrap=tuple(parse_addresses(texts["bootstrap.servers"])),
            client_id=texts.get("client.id", cls.client_id),
            security=Security.from_settings(texts),
            **seconds,  # type: ignore[arg-type]
        )


_MILLISECONDS = {
    "socket.connection.setup.timeout.ms": "connect_s",
    "request.timeout.ms": "request_s",
    "default.api.timeout.ms": "patience_s",
    "delivery.timeout.ms": "patience_s",
    "retry.backoff.ms": "backoff_s",
    "retry.backoff.max.ms": "backoff_s_max",
}


def _seconds(name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise Misconfigured(f"{name} is a number of milliseconds, not {text!r}") from None
    if value < 0:
        raise Misconfigured(f"{name} cannot be negative")
    return value / 1000
