"""The URLs of a program: where it listens, hosts, origins, proxies, and paths that every part of it reads
in the same way.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Sequence
from typing import Any, Final
from urllib.parse import unquote_to_bytes

from broker_cy.client.address import Address, parse_address
from broker_cy.client.errors import ClientError, Failure
from broker_cy.core.classes import NamedTuple

PATH_BYTES_MAX: Final = 4_096
QUERY_BYTES_MAX: Final = 16_384
HOSTS_MAX: Final = 100
PROXIES_MAX: Final = 100
# Addresses in X-Forwarded-For that are read, from its end.
HOPS_MAX: Final = 16
LOOPBACK_NAMES: Final = ("127.0.0.1", "localhost", "[::1]")
_HOST = re.compile(r"(?P<name>[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?|\[[0-9a-f:.]+\])(?::(?P<port>[0-9]{1,5}))?")
# Encoded slash, backslash, NUL and other controls, and an encoded % that would be decoded a second time.
_REFUSED_ESCAPE = re.compile(rb"%(?:2f|5c|[01][0-9a-f]|7f|25[0-9a-f]{2})", re.IGNORECASE)
_BAD_ESCAPE = re.compile(rb"%(?![0-9a-fA-F]{2})")
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class Host(NamedTuple):
    """A name, an IPv4 address, or an IPv6 address in brackets, in lower case; `port` is None if it is not given."""

    name: str
    port: int | None


def parse_listen(text: str, where: str, default_port: int) -> Address:
    """Parse HOST:PORT, also [::1]:PORT. Port 0 selects a free one; `default_port` is an example in errors. Raises
    ClientError.
    """
    try:
        return parse_address(text, default_port, needs_port=True, port_min=0)
    except ValueError as error:
        raise ClientError(Failure.INVALID, str(error), what=where) from None


def parse_proxies(found: Sequence[Any], refuse: Callable[[str], ClientError]) -> tuple[Network, ...]:
    """Parse the setting trusted_proxies: addresses and networks. Raises ClientError, which `refuse` makes of a text."""
    if len(found) > PROXIES_MAX:
        raise refuse(f"trusted_proxies has {len(found)} entries; {PROXIES_MAX} are allowed")
    try:
        return tuple(ipaddress.ip_network(each) for each in found)
    except ValueError as error:
        raise refuse(f"trusted_proxies = {found!r}: {error}") from None


def parse_host(text: str) -> Host | None:
    """Return the host of a Host header; None if it is malformed."""
    match = _HOST.fullmatch(text.lower())
    if match is None:
        return None
    port = match["port"]
    return Host(match["name"], None if port is None else int(port))


def client_address(peer: str, forwarded: str, proxies: Sequence[Network]) -> str:
    """Return the address of the client: `peer`, unless that is a trusted proxy, whose X-Forwarded-For is `forwarded`.

    Each proxy appends the address of its own peer. The client is the last address that is not a trusted proxy: a client
    can forge the ones before it.
    """
    address = peer
    for hop in reversed(forwarded.split(",")[-HOPS_MAX:]):
        if not _is_of(address, proxies):
            break
        hop = hop.strip()
        if not is_address(hop):
            break
        address = hop
    return address


def _is_of(address: str, networks: Sequence[Network]) -> bool:
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    mapped = getattr(parsed, "ipv4_mapped", None)
    return any(each in network for each in (parsed, *([mapped] if mapped else [])) for network in networks)


def host_name(address: str) -> str:
    """Return an address to listen on as it is written in a URL: IPv6 in brackets."""
    return f"[{address.lower()}]" if ":" in address and not address.startswith("[") else address.lower()


def is_loopback(address: str) -> bool:
    """Return whether only programs on this machine reach a socket that listens on the address."""
    if address.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(address.strip("[]")).is_loopback
    except ValueError:
        return False


def is_address(name: str) -> bool:
    """Return whether a name is an IP address, IPv6 also in brackets."""
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


class Hosts:
    """The hosts by which clients may address a program; others are DNS rebinding, or a proxy that is not configured.

    Allowed are loopback names and the address that the program listens on, with its port, and the configured names,
    with their own port or else the program's or the scheme's. If the program listens on all addresses, every IP address
    is allowed, too, because rebinding needs a name.
    """

    def __init__(self, listen: str, port: int, names: Sequence[str], *, tls: bool) -> None:
        """Raises ClientError if one of the names is not NAME or NAME:PORT."""
        self.scheme = "https" if tls else "http"
        self._port = port
        self._default_port = _DEFAULT_PORTS[self.scheme]
        own = host_name(listen)
        self._is_any = own in ("0.0.0.0", "[::]")
        self._own = frozenset((*LOOPBACK_NAMES, own))
        if len(names) > HOSTS_MAX:
            raise ClientError(Failure.INVALID, f"{len(names):,} hosts are given: {HOSTS_MAX} are allowed", what="hosts")
        found = []
        for text in names:
            host = parse_host(text)
            if host is None:
                reason = f"{text!r} is not a host: NAME or NAME:PORT is expected, such as dashboard.example.com"
                raise ClientError(Failure.INVALID, reason, what="hosts")
            found.append(host)
        self._named = frozenset(found)

    def allows(self, host: Host, *, only_loopback: bool = False) -> bool:
        """Return whether the host is allowed; `only_loopback`: configured names are not allowed.

        The caller listens on a loopback address then.
        """
        port = host.port or self._default_port
        if only_loopback:
            return host.name in self._own and port == self._port
        if port == self._port and (host.name in self._own or (self._is_any and is_address(host.name))):
            return True
        if Host(host.name, port) in self._named:
            return True
        return Host(host.name, None) in self._named and port in (self._port, self._default_port)

    def is_same_origin(self, origin: str, host: Host) -> bool:
        """Return whether a page with this Origin header comes from `host`."""
        scheme, separator, rest = origin.partition("://")
        found = parse_host(rest)
        if not separator or scheme.lower() != self.scheme or found is None:
            return False
        return (found.name, found.port or self._default_port) == (host.name, host.port or self._default_port)


def path_problem(raw: bytes, path: str) -> str:
    """Return the reason to refuse a path; empty if it is allowed. `raw` is the path as it was sent, `path` the decoded
    one.

    A path that two programs might interpret differently is refused: dot segments, empty segments, encoded slashes,
    backslashes, control characters, double encoding, and bytes that are not UTF-8.
    """
    if len(raw) > PATH_BYTES_MAX:
        return f"the path has more than {PATH_BYTES_MAX:,} bytes"
    if _REFUSED_ESCAPE.search(raw) or _BAD_ESCAPE.search(raw):
        return "the path has an escape that is not allowed"
    try:
        decoded = unquote_to_bytes(raw).decode()
    except UnicodeDecodeError:
        return "the path is not UTF-8"
    for text in (decoded, path):
        if not text.startswith("/"):
            return "the path does not start with /"
        if "\\" in text or any(sign < " " or "\x7f" <= sign <= "\x9f" for sign in text):
            return "the path has a backslash or a control character"
        segments = text.split("/")[1:]
        if any(segment in (".", "..") for segment in segments) or "" in segments[:-1]:
            return "the path has an empty segment or a dot segment"
    return ""
