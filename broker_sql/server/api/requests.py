"""Requests and answers of the REST API."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple
from urllib.parse import unquote_to_bytes

import orjson
from starlette.types import Receive

from broker_cy.http import accept as accept_header
from broker_sql.server.errors import ApiError, Code, bad_request

BODY_BYTES_MAX: Final = 4 << 20
V1: Final = "application/vnd.ksql.v1+json"
JSON: Final = "application/json"
DELIMITED: Final = "application/vnd.ksqlapi.delimited.v1"
PROTOBUF: Final = "application/vnd.ksql.v1+protobuf"
_ORIGIN: Final = re.compile(rb"\Ahttps?://[^/]*", re.IGNORECASE)


class Answer(NamedTuple):
    """`body` is JSON; None is an empty body. `content_type` is empty for the one that the client prefers."""

    body: Any = None
    status: int = 200
    content_type: str = ""
    headers: tuple[tuple[bytes, bytes], ...] = ()

    def encode(self) -> bytes:
        return b"" if self.body is None else orjson.dumps(self.body)


class Streamed(NamedTuple):
    """An answer whose parts are sent as they come. `parts` is closed when the client goes. `reads_body`: it still reads
    the request, and notices itself that the client goes.
    """

    content_type: str
    parts: AsyncIterator[bytes]
    reads_body: bool = False


class Whole(NamedTuple):
    """A successful answer whose body is complete."""

    content_type: str
    body: bytes


@dataclass(slots=True)
class Request:
    """A request as handlers see it. `path` has the variables of its path, decoded; `user` is the login's name."""

    method: str
    segments: tuple[str, ...]
    headers: Mapping[bytes, bytes]
    receive: Receive
    http_version: str = "1.1"
    path: Mapping[str, str] = field(default_factory=dict)
    user: str | None = None
    peer: str = ""

    @property
    def accept(self) -> str:
        return self.headers.get(b"accept", b"").decode("latin-1")

    async def body(self) -> bytes:
        """Return the whole body. Raises ApiError if it is larger than BODY_BYTES_MAX; ConnectionResetError."""
        found = bytearray()
        async for part in self.parts():
            found += part
            if len(found) > BODY_BYTES_MAX:
                raise ApiError(Code.TOO_LARGE, f"the body has more than {BODY_BYTES_MAX:,} bytes")
        return bytes(found)

    async def parts(self) -> AsyncIterator[bytes]:
        """Raises ConnectionResetError if the client goes before the end."""
        while True:
            message = await self.receive()
            if message["type"] != "http.request":
                raise ConnectionResetError("the client went before the end of its request")
            if part := message.get("body", b""):
                yield part
            if not message.get("more_body", False):
                return

    async def json(self) -> dict[str, Any]:
        """Return the object of the body. Raises ApiError."""
        return parse_object(await self.body(), "the body")


def segments_of(raw_path: bytes) -> tuple[str, ...]:
    """Return the parts of a path, decoded. A whole URL is allowed (RFC 9112, 3.2.2): the Python client `ksql` sends it
    for push queries and inserts. Raises ApiError."""
    raw_path = _ORIGIN.sub(b"", raw_path, 1)
    try:
        return tuple(unquote_to_bytes(part).decode() for part in raw_path.strip(b"/").split(b"/"))
    except UnicodeDecodeError:
        raise bad_request("the path is no valid UTF-8") from None


def parse_object(text: bytes, what: str) -> dict[str, Any]:
    """Raises ApiError: it is no JSON object."""
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise bad_request(f"{what} is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise bad_request(f"{what} is a {type(found).__name__}; a JSON object is expected")
    return found


def text_of(found: Mapping[str, Any], name: str) -> str:
    """Return a member that has to be a text. Raises ApiError."""
    value = found.get(name)
    if not isinstance(value, str):
        kind = "missing" if value is None else f"a {type(value).__name__}"
        raise bad_request(f"{name} is {kind}; a text is expected")
    return value


def object_of(found: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return a member that may be absent, and is an object otherwise. Raises ApiError."""
    value = found.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise bad_request(f"{name} is a {type(value).__name__}; an object is expected")
    return value


def preferred(accept: str, offered: tuple[str, ...]) -> str:
    """Return the type of the answer that the client likes best; the first one without a wish. Raises ApiError 406 if
    it takes none of them.
    """
    best = accept_header.preferred(accept, offered)
    if not best:
        raise ApiError(Code.NOT_ACCEPTABLE, f"Not acceptable: {accept}; {', '.join(offered)} can be had")
    return best
