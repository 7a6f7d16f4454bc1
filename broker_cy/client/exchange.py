"""The requests and answers of one connection as bytes, without input or output.

A frame is an int32 size and that many bytes: a request header (version 1 or 2) and a body, or a response header
(version 0 or 1) and a body. A broker answers the requests of a connection in their order.

Invariant: `waiting` has one entry for each request that was encoded and still has no answer, the oldest first.
"""

from __future__ import annotations

import struct
from collections import deque
from typing import Generic, TypeVar

from broker_cy.wire import frame

T = TypeVar("T")

SIZE_BYTES = 4
# A larger size cannot be that of an answer. Fetch answers stay below fetch limits plus one batch; the largest
# others, the offsets of thousands of groups, are requested in pieces.
ANSWER_BYTES_MAX = 256 << 20
_CORRELATION_ID_MASK = 0x7FFFFFFF
_HEAD = struct.Struct(">ihhih")
_CORRELATION_ID_AT = 8
_I32 = struct.Struct(">i")


class ExchangeError(Exception):
    """The peer sent bytes that no broker sends; the connection cannot be used any further."""


class Exchange(Generic[T]):
    """The state of one connection. A `ticket` is the caller's object for a waiting request."""

    def __init__(self, client_id: str) -> None:
        self.client_id = client_id
        self._client_id = client_id.encode()
        self._correlation_id = 0
        self.waiting: deque[tuple[int, bool, T]] = deque()

    def head(self, api_key: int, version: int, body_bytes: int, ticket: T | None = None) -> bytes:
        """Return the size and the header of a request, which precede its body.

        A request without a ticket has no answer (Produce with acks=0).
        """
        correlation_id = self._next_correlation_id()
        flexible = frame.request_header_version(api_key, version) == 2
        size = _HEAD.size - SIZE_BYTES + len(self._client_id) + flexible + body_bytes
        if ticket is not None:
            self.waiting.append((correlation_id, frame.response_header_version(api_key, version) == 1, ticket))
        head = _HEAD.pack(size, api_key, version, correlation_id, len(self._client_id)) + self._client_id
        return head + b"\0" if flexible else head

    def again(self, request: bytearray, flexible: bool, ticket: T) -> None:
        """Give a complete request, which `head` once began, a new correlation id, to send it again.

        `flexible`: whether its answer has a header of version 1.
        """
        correlation_id = self._next_correlation_id()
        _I32.pack_into(request, _CORRELATION_ID_AT, correlation_id)
        self.waiting.append((correlation_id, flexible, ticket))

    def _next_correlation_id(self) -> int:
        correlation_id = self._correlation_id
        self._correlation_id = (correlation_id + 1) & _CORRELATION_ID_MASK
        return correlation_id

    @staticmethod
    def answer_bytes(received: bytes | bytearray | memoryview, at: int = 0) -> int:
        """Return the size of the answer that begins with the SIZE_BYTES at `at`. Raises ExchangeError."""
        (found,) = _I32.unpack_from(received, at)
        if not SIZE_BYTES <= found <= ANSWER_BYTES_MAX:
            raise ExchangeError(f"the broker sent a frame of {found} bytes: is this a Kafka listener without TLS?")
        return int(found)

    def take(self, answer: memoryview) -> tuple[T, memoryview]:
        """Return the ticket of the oldest waiting request, and the body of its answer.

        Raises ExchangeError if this is not its answer; the request then still waits.
        """
        if not self.waiting:
            raise ExchangeError("the broker sent an answer without a request")
        correlation_id, flexible, ticket = self.waiting[0]
        if _I32.unpack_from(answer)[0] != correlation_id:
            raise ExchangeError("the broker sent an answer to another request")
        # No broker sends a tag in a header yet, and this client could not decode one.
        if flexible and (len(answer) < 5 or answer[4]):
            raise ExchangeError("the broker sent an answer with an unknown header")
        self.waiting.popleft()
        return ticket, answer[5 if flexible else 4 :]

    def abandon(self) -> list[T]:
        """Return the tickets of all requests without an answer, when the connection ends."""
        tickets = [ticket for _, _, ticket in self.waiting]
        self.waiting.clear()
        return tickets
