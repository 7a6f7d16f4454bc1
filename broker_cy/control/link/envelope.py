"""The content of an Envelope (KIP-590): a client's request with its header, the client's principal, and the response
with its header. The principal has the form of Kafka's DefaultKafkaPrincipalBuilder: DefaultPrincipalData with its
version in front.
"""

from __future__ import annotations

import ipaddress
from typing import Protocol, TypeVar

from broker_cy.core.errors import WireError
from broker_cy.wire import codec, frame, messages
from broker_cy.wire.codec import Message

R = TypeVar("R", bound=Message)

_PRINCIPAL_VERSION = 0
# The controller answers each Envelope by itself, so that the number within it need not be unique.
_CORRELATION_ID = 0


class Asked(Protocol):
    """A request of a client, as far as it is forwarded (RequestContext)."""

    @property
    def api_key(self) -> int: ...
    @property
    def version(self) -> int: ...
    @property
    def client_id(self) -> str | None: ...
    @property
    def client_host(self) -> str: ...
    @property
    def principal(self) -> str: ...
    @property
    def by_token(self) -> bool: ...


def request_data(ctx: Asked, request: Message) -> bytes:
    """The request as the client sent it, with its header."""
    header = messages.RequestHeader(
        request_api_key=ctx.api_key,
        request_api_version=ctx.version,
        correlation_id=_CORRELATION_ID,
        client_id=ctx.client_id,
    )
    version = frame.request_header_version(ctx.api_key, ctx.version)
    return codec.encode(header, version) + codec.encode(request, ctx.version)


def read_response(ctx: Asked, response: type[R], data: bytes | None) -> R:
    """The response in `data`, which has its header in front. Raises WireError."""
    size = 5 if frame.response_header_version(ctx.api_key, ctx.version) >= 1 else 4
    if data is None or len(data) < size:
        raise WireError("an Envelope without a response")
    if size == 5 and data[4]:
        raise WireError("a response whose header has tags")
    return codec.decode(response, ctx.version, memoryview(data)[size:])


def response_data(api_key: int, version: int, correlation_id: int, response: Message) -> bytes:
    """The response to a request of an Envelope, with its header."""
    tags = b"\0" if frame.response_header_version(api_key, version) >= 1 else b""
    return correlation_id.to_bytes(4, "big", signed=True) + tags + codec.encode(response, version)


def principal_data(principal: str, *, by_token: bool = False) -> bytes:
    """`User:NAME` for an Envelope; `by_token`: the user has logged in with a delegation token."""
    kind, _, name = principal.partition(":")
    data = messages.DefaultPrincipalData(type=kind, name=name, token_authenticated=by_token)
    return codec.encode_versioned(data, _PRINCIPAL_VERSION)


def read_principal(data: bytes | None) -> tuple[str, bool]:
    """`User:NAME`, and whether it has logged in with a delegation token. Raises WireError."""
    if data is None:
        raise WireError("an Envelope without a principal")
    found, _ = codec.decode_versioned(messages.DefaultPrincipalData, data)
    return f"{found.type}:{found.name}", found.token_authenticated


def packed_address(host: str) -> bytes:
    """An IP address as 4 or 16 bytes, as Java's InetAddress has it."""
    try:
        return ipaddress.ip_address(host.partition("%")[0]).packed
    except ValueError:
        # A simulated host has a name instead.
        return bytes(4)


def unpacked_address(address: bytes) -> str:
    """The address as text. Raises ValueError unless it has 4 or 16 bytes."""
    return str(ipaddress.ip_address(bytes(address)))
