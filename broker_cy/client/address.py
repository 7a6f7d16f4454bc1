"""Broker addresses: `HOST:PORT`, and lists of them."""

from __future__ import annotations

from broker_cy.core.classes import NamedTuple

DEFAULT_PORT = 9092


class Address(NamedTuple):
    """A host name or address, and a TCP port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(
    text: str,
    default_port: int = DEFAULT_PORT,
    *,
    needs_port: bool = False,
    port_min: int = 1,
    is_listener: bool = False,
) -> Address:
    """Parse `host:port`, `host` (the default port, unless a port is needed), `[ipv6]:port` or `[ipv6]`. Raises
    ValueError, which says what is allowed, for anything else.

    `is_listener`: as Kafka's `listeners` allow, the host may be empty (every address of the machine), and an IPv6
    address before a port needs no brackets.
    """
    host, colon, port = text.strip().rpartition(":")
    if not colon or port.endswith("]"):
        host, port = text.strip(), "" if needs_port else str(default_port)
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host and not is_listener:
        raise ValueError(f"{text!r} is not an address: write an IPv6 address as [::1]:{default_port}")
    # isdecimal alone is true for the digits of other scripts.
    if not (host or is_listener) or any(map(str.isspace, host)) or not (port.isascii() and port.isdecimal()):
        raise ValueError(f"{text!r} is not an address: HOST:PORT is expected, such as 127.0.0.1:{default_port}")
    if not port_min <= int(port) <= 65_535:
        raise ValueError(f"{text!r}: port {port} is out of range; ports are {port_min} to 65535")
    return Address(host, int(port))


def parse_addresses(text: str) -> tuple[Address, ...]:
    """Parse addresses separated by commas, at least one. Raises ValueError as `parse_address`."""
    return tuple(parse_address(part) for part in text.split(","))
