"""Requests as the edge reads them, and its own answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Final

from starlette.types import Scope

from broker_cy.core.classes import NamedTuple, dataclass
from broker_cy.http.addresses import Host, Network, client_address, parse_host

Headers = list[tuple[bytes, bytes]]

TEXT: Final = (b"content-type", b"text/plain; charset=utf-8")
HTML: Final = (b"content-type", b"text/html; charset=utf-8")
JSON: Final = (b"content-type", b"application/json")
# Cookies of one name that are tried; another program on the same host may have set some.
_COOKIES_MAX: Final = 4


class Answer(NamedTuple):
    """A response of the edge itself. `is_noted`: it is a denial that the audit log records."""

    status: int
    text: str
    headers: tuple[tuple[bytes, bytes], ...] = (TEXT,)
    is_noted: bool = True


@dataclass(slots=True)
class Request:
    """The parts of a request that the edge reads."""

    scope: Scope
    is_socket: bool
    method: str
    path: str
    address: str
    headers: dict[bytes, list[bytes]] = field(default_factory=dict)
    host: Host | None = None

    @classmethod
    def of(cls, scope: Scope, proxies: Sequence[Network] = ()) -> Request:
        client = scope.get("client")
        is_socket = scope["type"] == "websocket"
        request = cls(
            scope, is_socket, "GET" if is_socket else scope["method"], scope["path"], str(client[0]) if client else ""
        )
        for name, value in scope["headers"]:
            request.headers.setdefault(name.lower(), []).append(value)
        if proxies:
            request.address = client_address(request.address, request.header(b"x-forwarded-for"), proxies)
        hosts = request.headers.get(b"host", [])
        request.host = parse_host(hosts[0].decode("latin-1")) if len(hosts) == 1 else None
        return request

    def header(self, name: bytes) -> str:
        """Return the value of a header; of several ones all, joined as HTTP defines it."""
        return b", ".join(self.headers.get(name, ())).decode("latin-1")

    def cookies(self, name: str) -> list[str]:
        found = []
        for part in self.header(b"cookie").replace(", ", ";").split(";"):
            key, _, value = part.strip().partition("=")
            if key == name:
                found.append(value)
        return found[:_COOKIES_MAX]

    @property
    def is_navigation(self) -> bool:
        """Whether a browser loads a page with this request; older browsers do not say so but accept HTML."""
        if self.is_socket or self.method not in ("GET", "HEAD") or "text/html" not in self.header(b"accept"):
            return False
        return self.header(b"sec-fetch-mode") in ("", "navigate") and self.header(b"sec-fetch-dest") in ("", "document")

    @property
    def is_foreign(self) -> bool:
        """Whether the browser says that a page of another origin makes the request."""
        return self.header(b"sec-fetch-site") in ("cross-site", "same-site")
