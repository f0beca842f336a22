"""Where brokers are reached: HOST:PORT, IPv6 in brackets."""

from __future__ import annotations

from typing import TypeAlias

from ottla.client.failures import Misconfigured

Address: TypeAlias = tuple[str, int]


def parse_addresses(bootstrap: str) -> list[Address]:
    found = []
    for one in bootstrap.split(","):
        host, _, port = one.strip().rpartition(":")
        if not host or not port.isdecimal():
            raise Misconfigured(f"{one.strip()!r} is not HOST:PORT")
        found.append((host.strip("[]"), int(port)))
    return found


def address_name(address: Address) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
