"""The edge: one ASGI middleware around an application, which refuses everything that is not explicitly allowed.

In this order it checks the Host, the path, the method, the origin, where the browser says that the request comes from,
the size and the login; the first failed check is answered. It puts the identity of the client into
scope["state"]["identity"] (missing on open paths without a login), adds the program's headers to every response, and
bounds bodies and messages of sockets.

An open socket is closed with code 1008 at the next message in either direction after its login has ended.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Final, Generic, Protocol, TypeVar
from urllib.parse import quote

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from broker_cy.http.addresses import QUERY_BYTES_MAX, Host, Hosts, Network, path_problem
from broker_cy.http.limits import Buckets, address_key
from broker_cy.http.requests import HTML, JSON, TEXT, Answer, Headers, Request

Identity = TypeVar("Identity")

# The part of a too large body that is read and dropped after the answer: closing a connection with unread data resets
# it, and the client may never see the answer.
_DROPPED_BYTES_MAX: Final = 64 << 20
_DROPPED_S: Final = 3.0
_READING: Final = ("GET", "HEAD", "OPTIONS")
# Denials that are written to the audit log, of one address and of all; further ones are counted.
_NOTES_BURST: Final = 20
_NOTES_A_MINUTE: Final = 20
_ALL_NOTES_BURST: Final = 100
_ALL_NOTES_A_MINUTE: Final = 100
# A proxy in front of a program without login would let every client in.
_PROXY_HEADERS: Final = (b"forwarded", b"x-forwarded-for", b"x-forwarded-host", b"x-real-ip", b"via")
_CLOSE_POLICY: Final = 1008
_CLOSE_TOO_BIG: Final = 1009


class Login(Protocol[Identity]):
    """How a program identifies its clients."""

    @property
    def is_required(self) -> bool:
        """Whether clients must log in. If not, only clients of this machine are served."""

    @property
    def hint(self) -> str:
        """The command that sets a login up."""

    def identify(self, request: Request) -> Identity | None:
        """Return the identity of the client; None if it is not logged in."""

    def is_open(self, request: Request) -> bool:
        """Return whether a request is served without a login."""

    def needed(self, request: Request) -> Answer:
        """Return the answer to a client that is not logged in."""

    def ended(self, identity: Identity) -> str:
        """Return why the identity is no longer valid; empty if it is."""

    def note(self, request: Request, identity: Identity | None, result: str) -> None:
        """Write a denied request into the audit log."""


class ResponseHeaders(Protocol):
    """The headers that every response of a program has."""

    def applied(self, headers: Headers, host: Host | None, *, path: str, status: int) -> Headers:
        """Return the headers of a response with these added; they replace those of the same names."""


class Edge(Generic[Identity]):
    """The middleware."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        name: str,
        hosts: Hosts,
        proxies: Sequence[Network],
        login: Login[Identity],
        headers: ResponseHeaders,
        methods: Sequence[str],
        needs_origin: bool,
        body_bytes_max: int,
        message_bytes_max: int,
        clock: Callable[[], float],
    ) -> None:
        """`name` names the program in texts, such as "the dashboard". `needs_origin`: requests that change something
        must have an Origin, or come from a browser that says "same-origin". Logins that browsers send unasked need it.
        """
        self._app = app
        self._name = name
        self._hosts = hosts
        self._proxies = proxies
        self._login = login
        self._response = headers
        self._methods = methods
        self._needs_origin = needs_origin
        self._body_bytes_max = body_bytes_max
        self._message_bytes_max = message_bytes_max
        self._notes = Buckets(clock, burst=_NOTES_BURST, per_minute=_NOTES_A_MINUTE)
        self._all_notes = Buckets(clock, burst=_ALL_NOTES_BURST, per_minute=_ALL_NOTES_A_MINUTE)
        self._unnoted = 0
        self._too_large = Answer(
            413, f'{{"error": "the body has more than {body_bytes_max:,} bytes"}}', (JSON, (b"connection", b"close"))
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] not in ("http", "websocket"):
            raise ValueError(f"unknown requests of type {scope['type']!r}")
        request = Request.of(scope, self._proxies)
        answer = self._refused(request)
        identity = None
        if answer is None:
            identity = self._login.identify(request)
            if identity is None and not self._login.is_open(request):
                answer = self._login.needed(request)
        if answer is not None:
            if answer.is_noted:
                self._note(request, identity, answer.text)
            await self._send_answer(request, receive, send, answer)
            return
        state = {**scope.get("state", {})}
        state.pop("identity", None)
        if identity is not None:
            state["identity"] = identity
        inner = {**scope, "state": state}
        if self._proxies:
            # Failed logins are counted by the address of the client, not of the proxy.
            inner["client"] = (request.address, 0)
        if request.is_socket:
            assert identity is not None
            await self._run_socket(inner, receive, send, identity)
        else:
            await self._run_http(request, identity, inner, receive, send)

    def _refused(self, request: Request) -> Answer | None:
        """Return the answer to a request that is refused for every client."""
        is_local = not self._login.is_required
        if request.host is None or not self._hosts.allows(request.host, only_loopback=is_local):
            request.host = None
            return Answer(
                400, f"the Host of the request is not one of {self._name}'s: see `hosts` of its configuration"
            )
        if is_local and any(name in request.headers for name in _PROXY_HEADERS):
            return Answer(403, f"the request came through a proxy: this needs a login ({self._login.hint})")
        scope = request.scope
        raw = scope.get("raw_path") or quote(request.path).encode()
        problem = path_problem(raw, request.path)
        if problem:
            return Answer(400, problem)
        if len(scope.get("query_string", b"")) > QUERY_BYTES_MAX:
            return Answer(414, f"the query has more than {QUERY_BYTES_MAX:,} bytes")
        if request.method not in self._methods:
            allowed = (b"allow", ", ".join(self._methods).encode())
            return Answer(405, f"{request.method} is not allowed", (TEXT, allowed))
        return self._foreign(request, request.host) or self._announced(request)

    def _foreign(self, request: Request, host: Host) -> Answer | None:
        """Return the answer that denies a request of a page of another origin."""
        origins = request.headers.get(b"origin", [])
        if request.is_socket or request.method not in _READING:
            if not origins and not request.is_socket:
                if self._needs_origin and request.header(b"sec-fetch-site") != "same-origin":
                    return Answer(403, "the request has no Origin")
            elif len(origins) != 1 or not self._hosts.is_same_origin(origins[0].decode("latin-1"), host):
                return Answer(403, f"the Origin of the request is not {self._name}'s")
            if request.is_foreign:
                return Answer(403, "the request comes from a page of another origin")
        elif request.is_foreign and not request.is_navigation:
            return Answer(403, "the request comes from a page of another origin")
        return None

    def _announced(self, request: Request) -> Answer | None:
        """Return the answer to a request whose Content-Length is malformed or too large."""
        length = request.header(b"content-length")
        if not length:
            return None
        if not (length.isascii() and length.isdigit() and len(length) < 20):
            return Answer(400, "the Content-Length is not a number", (TEXT, (b"connection", b"close")))
        return self._too_large if int(length) > self._body_bytes_max else None

    def _note(self, request: Request, identity: Identity | None, reason: str) -> None:
        if not self._notes.take(address_key(request.address)) or not self._all_notes.take(""):
            self._unnoted += 1
            return
        more = f" (and {self._unnoted:,} earlier denials that were not noted)" if self._unnoted else ""
        self._unnoted = 0
        self._login.note(request, identity, f"refused: {reason}{more}")

    async def _send_answer(self, request: Request, receive: Receive, send: Send, answer: Answer) -> None:
        body = answer.text.encode() if answer.headers[0] == HTML else answer.text.encode() + b"\n"
        headers: Headers = [*answer.headers, (b"content-length", str(len(body)).encode())]
        headers = self._response.applied(headers, request.host, path="", status=answer.status)
        kind = "http.response"
        if request.is_socket:
            await receive()
            if "websocket.http.response" not in request.scope.get("extensions", {}):
                # The server answers the handshake with 403.
                await send({"type": "websocket.close", "code": _CLOSE_POLICY, "reason": answer.text[:120]})
                return
            kind = "websocket.http.response"
        await send({"type": f"{kind}.start", "status": answer.status, "headers": headers})
        # A client that waits for 100 (Continue) has sent no body.
        if answer is self._too_large and not request.header(b"expect"):
            await send({"type": f"{kind}.body", "body": body, "more_body": True})
            await _drop_body(receive)
            body = b""
        await send({"type": f"{kind}.body", "body": b"" if request.method == "HEAD" else body})

    async def _run_http(
        self, request: Request, identity: Identity | None, scope: Scope, receive: Receive, send: Send
    ) -> None:
        size_bytes = 0
        is_started = False

        async def bounded_receive() -> Message:
            nonlocal size_bytes
            if size_bytes > self._body_bytes_max:
                return {"type": "http.disconnect"}
            message = await receive()
            if message["type"] == "http.request":
                size_bytes += len(message.get("body", b""))
                if size_bytes > self._body_bytes_max:
                    # The application must not act on a part of the body.
                    return {"type": "http.disconnect"}
            return message

        async def headed_send(message: Message) -> None:
            nonlocal is_started
            if size_bytes > self._body_bytes_max and not is_started:
                return
            if message["type"] == "http.response.start":
                is_started = True
                headers = self._response.applied(
                    list(message.get("headers", ())), request.host, path=request.path, status=message["status"]
                )
                message = {**message, "headers": headers}
            await send(message)

        try:
            await self._app(scope, bounded_receive, headed_send)
        except Exception:
            if size_bytes <= self._body_bytes_max or is_started:
                if not is_started:
                    # The server's own answer would lack the headers. The server logs the exception.
                    failed = Answer(500, f"{self._name} failed to answer; its log says why")
                    await self._send_answer(request, receive, send, failed)
                raise
        if size_bytes > self._body_bytes_max and not is_started:
            self._note(request, identity, f"the body has more than {self._body_bytes_max:,} bytes")
            await self._send_answer(request, receive, send, self._too_large)

    async def _run_socket(self, scope: Scope, receive: Receive, send: Send, identity: Identity) -> None:
        is_closed = False

        async def close(code: int, reason: str) -> None:
            nonlocal is_closed
            is_closed = True
            await send({"type": "websocket.close", "code": code, "reason": reason[:120]})

        async def checked_receive() -> Message:
            if is_closed:
                return {"type": "websocket.disconnect", "code": _CLOSE_POLICY}
            message = await receive()
            if message["type"] != "websocket.receive":
                return message
            reason = self._login.ended(identity)
            if reason:
                await close(_CLOSE_POLICY, reason)
                return {"type": "websocket.disconnect", "code": _CLOSE_POLICY}
            text = message.get("text")
            # A character has at most four bytes, so encoding to count them is only needed near the limit.
            length = len(message.get("bytes") or b"") if text is None else len(text)
            if length > self._message_bytes_max or (
                text is not None and length * 4 > self._message_bytes_max < len(text.encode())
            ):
                await close(_CLOSE_TOO_BIG, f"a message has more than {self._message_bytes_max:,} bytes")
                return {"type": "websocket.disconnect", "code": _CLOSE_TOO_BIG}
            return message

        async def checked_send(message: Message) -> None:
            if is_closed:
                raise ConnectionResetError("the edge has closed the socket")
            if message["type"] in ("websocket.accept", "websocket.send"):
                reason = self._login.ended(identity)
                if reason:
                    await close(_CLOSE_POLICY, reason)
                    raise ConnectionResetError(reason)
            await send(message)

        await self._app(scope, checked_receive, checked_send)


async def _drop_body(receive: Receive) -> None:
    """Read what is left of a body, up to _DROPPED_BYTES_MAX and for _DROPPED_S at most."""
    left = _DROPPED_BYTES_MAX
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_DROPPED_S):
            while left > 0:
                message = await receive()
                if message["type"] != "http.request" or not message.get("more_body", False):
                    return
                left -= len(message.get("body", b""))
