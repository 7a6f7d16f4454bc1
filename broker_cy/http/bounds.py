"""The bounds of connections that uvicorn does not have, for its protocols on h11 and on httptools.

- CONNECTIONS_MAX connections; a further one is closed.
- The head of a request is complete HEAD_S after its first byte, and has HEAD_BYTES_MAX at most.
- Its body is complete BODY_S after the head.
- A client reads a part of the answer every SEND_S.

So slow clients hold a connection for a bounded time, and none of them holds memory for what it has not sent. A request
has the certificate of its client, if the listener asks for one, in `scope["state"]`, as CERTIFICATE.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final, Protocol

from starlette.types import Scope

CONNECTIONS_MAX: Final = 2_000
HEAD_BYTES_MAX: Final = 64 << 10
HEAD_S: Final = 10.0
BODY_S: Final = 60.0
SEND_S: Final = 60.0
CERTIFICATE: Final = "client_certificate"


class Connection(Protocol):
    """The attributes that are read and set of the protocols of uvicorn, and of that of HTTP/2."""

    connections: set[Any]
    app_state: dict[str, Any]


class Bounds:
    """The times of one connection, whose protocol reports what it waits for."""

    __slots__ = ("_deadline", "_loop", "_stalled", "_transport")

    def __init__(self, loop: asyncio.AbstractEventLoop, transport: asyncio.Transport) -> None:
        self._loop = loop
        self._transport = transport
        self._deadline: asyncio.TimerHandle | None = None
        self._stalled: asyncio.TimerHandle | None = None

    @property
    def is_waiting(self) -> bool:
        return self._deadline is not None

    def wait(self, time_s: float) -> None:
        """The client has to send something within this time."""
        self.done()
        self._deadline = self._loop.call_later(time_s, self._transport.abort)

    def done(self) -> None:
        """The client has sent what it had to."""
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def stall(self) -> None:
        """The client does not read."""
        if self._stalled is None:
            self._stalled = self._loop.call_later(SEND_S, self._transport.abort)

    def resume(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def close(self) -> None:
        self.done()
        self.resume()


def admitted(protocol: Connection, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> Bounds:
    """Return the bounds of a connection, whose requests get the certificate of the client. One too many is closed."""
    bounds = Bounds(loop, transport)
    if len(protocol.connections) > CONNECTIONS_MAX:
        transport.abort()
        return bounds
    session = transport.get_extra_info("ssl_object")
    certificate = None if session is None else session.getpeercert(binary_form=True)
    if certificate is not None:
        protocol.app_state = {**protocol.app_state, CERTIFICATE: certificate}
    bounds.wait(HEAD_S)
    return bounds


def certificate_of(scope: Scope) -> bytes | None:
    """Return the certificate of the client in DER; None if it has shown none."""
    state: dict[str, Any] = scope.get("state", {})
    found = state.get(CERTIFICATE)
    return found if isinstance(found, bytes) else None
