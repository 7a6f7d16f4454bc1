"""The guard: one ASGI middleware around the whole dashboard, which refuses everything that is not explicitly allowed.

Dash's own hooks do not cover its pages, assets and WebSockets, so nothing behind this middleware is relied on. In this
order it checks the Host, the path, the method, the origin, where the browser says that the request comes from, the size
and the login; the first failed check is answered. It puts the Identity into scope["state"]["identity"] (missing on
public paths without a login), adds the headers of headers.py to every response, and bounds bodies and messages of
sockets.

An open socket is closed with code 1008 at the next message in either direction after its login has ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import html
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from dashboard.security.addresses import (
    QUERY_BYTES_MAX,
    Host,
    Network,
    client_address,
    local_path,
    parse_host,
    path_problem,
)
from dashboard.security.core import Security
from dashboard.security.headers import Headers, ResponseHeaders
from dashboard.security.limits import Buckets, address_key
from dashboard.security.roles import Identity

ASGIMessage = MutableMapping[str, Any]
ASGIScope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[ASGIMessage]]
Send = Callable[[ASGIMessage], Awaitable[None]]
ASGIApp = Callable[[ASGIScope, Receive, Send], Awaitable[None]]

BODY_BYTES_MAX: Final = 8 << 20
# The part of a too large body that is read and dropped after the answer: closing a connection with unread data resets
# it, and the client may never see the answer.
_DROPPED_BYTES_MAX: Final = 64 << 20
_DROPPED_S: Final = 3.0
# Browsers send only subscriptions over a socket, which are small.
SOCKET_MESSAGE_BYTES_MAX: Final = 64 << 10
METHODS: Final = ("GET", "HEAD", "POST", "OPTIONS")
_READING: Final = ("GET", "HEAD", "OPTIONS")
# Open without a login: paths with their methods, and the paths of the identity provider's answers.
OPEN_PATHS: Final = {
    "/login": ("GET", "HEAD", "POST"),
    "/login.css": ("GET", "HEAD"),
    "/healthz": ("GET", "HEAD"),
}
OPEN_PREFIX: Final = "/oidc/"
# Denials that are written to the audit log, of one address and of all; further ones are counted.
_NOTES_BURST: Final = 20
_NOTES_A_MINUTE: Final = 20
_ALL_NOTES_BURST: Final = 100
_ALL_NOTES_A_MINUTE: Final = 100
# Cookies of the session's name that are tried; another program on the same host may have set some.
_COOKIES_MAX: Final = 4
# A proxy in front of a dashboard without login would let every client in.
_PROXY_HEADERS: Final = (b"forwarded", b"x-forwarded-for", b"x-forwarded-host", b"x-real-ip", b"via")
_CLOSE_POLICY: Final = 1008
_CLOSE_TOO_BIG: Final = 1009
_TEXT: Final = (b"content-type", b"text/plain; charset=utf-8")
_HTML: Final = (b"content-type", b"text/html; charset=utf-8")
_JSON: Final = (b"content-type", b"application/json")


class Answer(NamedTuple):
    """A response of the guard itself. `is_noted`: it is a denial that the audit log records."""

    status: int
    text: str
    headers: tuple[tuple[bytes, bytes], ...] = (_TEXT,)
    is_noted: bool = True


@dataclass(slots=True)
class Request:
    """What the guard reads of a request. `cookies` are the values of the session's cookie."""

    scope: ASGIScope
    is_socket: bool
    method: str
    path: str
    address: str
    headers: dict[bytes, list[bytes]] = field(default_factory=dict)
    host: Host | None = None

    @classmethod
    def of(cls, scope: ASGIScope, proxies: Sequence[Network] = ()) -> Request:
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


class Guard:
    """The middleware. `script_hashes` are those of the inline scripts of Dash's index page, as sha256-BASE64; `frames`:
    pages may show other pages of the dashboard in frames.
    """

    def __init__(
        self, app: ASGIApp, security: Security, script_hashes: Sequence[str] = (), *, frames: bool = False
    ) -> None:
        self._app = app
        self._security = security
        self._response = ResponseHeaders(tls=security.config.tls, script_hashes=script_hashes, frames=frames)
        clock = security.clock
        self._notes = Buckets(clock, burst=_NOTES_BURST, per_minute=_NOTES_A_MINUTE)
        self._all_notes = Buckets(clock, burst=_ALL_NOTES_BURST, per_minute=_ALL_NOTES_A_MINUTE)
        self._unnoted = 0

    async def __call__(self, scope: ASGIScope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] not in ("http", "websocket"):
            raise ValueError(f"the guard does not know requests of type {scope['type']!r}")
        request = Request.of(scope, self._security.config.proxies)
        answer = self._refused(request)
        identity = None
        if answer is None:
            identity = self._security.identify(request.cookies(self._security.sessions.cookie), request.address)
            if identity is None and not self._is_open(request):
                answer = self._login_needed(request)
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
        if self._security.config.proxies:
            # Failed logins are counted by the address of the client, not of the proxy.
            inner["client"] = (request.address, 0)
        if request.is_socket:
            assert identity is not None
            await self._run_socket(inner, receive, send, identity)
        else:
            await self._run_http(request, identity, inner, receive, send)

    def _refused(self, request: Request) -> Answer | None:
        """Return the answer to a request that is refused for every client."""
        security = self._security
        is_local = not security.login_required
        if request.host is None or not security.hosts.allows(request.host, only_loopback=is_local):
            request.host = None
            return Answer(
                400, "the Host of the request is not one of the dashboard's: see `hosts` of its configuration"
            )
        if is_local and any(name in request.headers for name in _PROXY_HEADERS):
            return Answer(403, "the request came through a proxy: this needs a login (broker-dash user add)")
        scope = request.scope
        raw = scope.get("raw_path") or quote(request.path).encode()
        problem = path_problem(raw, request.path)
        if problem:
            return Answer(400, problem)
        if len(scope.get("query_string", b"")) > QUERY_BYTES_MAX:
            return Answer(414, f"the query has more than {QUERY_BYTES_MAX:,} bytes")
        if request.method not in METHODS:
            return Answer(405, f"{request.method} is not allowed", (_TEXT, (b"allow", ", ".join(METHODS).encode())))
        return self._foreign(request, request.host) or self._too_large(request)

    def _foreign(self, request: Request, host: Host) -> Answer | None:
        """Return the answer that denies a request of a page of another origin."""
        origins = request.headers.get(b"origin", [])
        if request.is_socket or request.method not in _READING:
            if not origins and not request.is_socket:
                if request.header(b"sec-fetch-site") != "same-origin":
                    return Answer(403, "the request has no Origin")
            elif len(origins) != 1 or not self._security.hosts.is_same_origin(origins[0].decode("latin-1"), host):
                return Answer(403, "the Origin of the request is not the dashboard's")
            if request.is_foreign:
                return Answer(403, "the request comes from a page of another origin")
        elif request.is_foreign and not request.is_navigation:
            return Answer(403, "the request comes from a page of another origin")
        return None

    def _too_large(self, request: Request) -> Answer | None:
        length = request.header(b"content-length")
        if not length:
            return None
        if not (length.isascii() and length.isdigit() and len(length) < 20):
            return Answer(400, "the Content-Length is not a number", (_TEXT, (b"connection", b"close")))
        return _TOO_LARGE if int(length) > BODY_BYTES_MAX else None

    def _is_open(self, request: Request) -> bool:
        if request.is_socket:
            return False
        if request.path.startswith(OPEN_PREFIX):
            return request.method == "GET"
        return request.method in OPEN_PATHS.get(request.path, ())

    def _login_needed(self, request: Request) -> Answer:
        if not request.is_navigation:
            return Answer(401, "not logged in, or the session has ended: log in at /login")
        query = request.scope.get("query_string", b"").decode("latin-1")
        target = local_path(quote(request.path) + (f"?{query}" if query else ""))
        if request.is_foreign:
            # With a link on another site, browsers do not send a SameSite=Strict cookie. They send it with the request
            # that this page makes, which shows whether the user is logged in.
            text = (
                '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Dashboard</title>'
                # Without it, browsers ask for /favicon.ico, which needs the login.
                '<link rel="icon" href="data:,">'
                f'<meta http-equiv="refresh" content="0;url={html.escape(target)}"></head>'
                f'<body><main><a href="{html.escape(target)}">Continue</a></main></body></html>'
            )
            return Answer(200, text, (_HTML,), is_noted=False)
        location = "/login" if target == "/" else f"/login?next={quote(target, safe='')}"
        return Answer(303, "log in first", (_TEXT, (b"location", location.encode())), is_noted=False)

    def _note(self, request: Request, identity: Identity | None, reason: str) -> None:
        if not self._notes.take(address_key(request.address)) or not self._all_notes.take(""):
            self._unnoted += 1
            return
        more = f" (and {self._unnoted:,} earlier denials that were not noted)" if self._unnoted else ""
        self._unnoted = 0
        self._security.audit.note(
            user="" if identity is None else identity.name,
            address=request.address,
            act="socket" if request.is_socket else "request",
            subject=f"{request.method} {request.path}",
            result=f"refused: {reason}{more}",
        )

    async def _send_answer(self, request: Request, receive: Receive, send: Send, answer: Answer) -> None:
        body = answer.text.encode() if answer.headers[0] == _HTML else answer.text.encode() + b"\n"
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
        if answer is _TOO_LARGE and not request.header(b"expect"):
            await send({"type": f"{kind}.body", "body": body, "more_body": True})
            await _drop_body(receive)
            body = b""
        await send({"type": f"{kind}.body", "body": b"" if request.method == "HEAD" else body})

    async def _run_http(
        self, request: Request, identity: Identity | None, scope: ASGIScope, receive: Receive, send: Send
    ) -> None:
        size_bytes = 0
        is_started = False

        async def bounded_receive() -> ASGIMessage:
            nonlocal size_bytes
            if size_bytes > BODY_BYTES_MAX:
                return {"type": "http.disconnect"}
            message = await receive()
            if message["type"] == "http.request":
                size_bytes += len(message.get("body", b""))
                if size_bytes > BODY_BYTES_MAX:
                    # The application must not act on a part of the body.
                    return {"type": "http.disconnect"}
            return message

        async def headed_send(message: ASGIMessage) -> None:
            nonlocal is_started
            if size_bytes > BODY_BYTES_MAX and not is_started:
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
            if size_bytes <= BODY_BYTES_MAX or is_started:
                if not is_started:
                    # The server's own answer would lack the headers. The server logs the exception.
                    await self._send_answer(request, receive, send, _FAILED)
                raise
        if size_bytes > BODY_BYTES_MAX and not is_started:
            self._note(request, identity, f"the body has more than {BODY_BYTES_MAX:,} bytes")
            await self._send_answer(request, receive, send, _TOO_LARGE)

    async def _run_socket(self, scope: ASGIScope, receive: Receive, send: Send, identity: Identity) -> None:
        is_closed = False

        async def close(code: int, reason: str) -> None:
            nonlocal is_closed
            is_closed = True
            await send({"type": "websocket.close", "code": code, "reason": reason[:120]})

        async def checked_receive() -> ASGIMessage:
            if is_closed:
                return {"type": "websocket.disconnect", "code": _CLOSE_POLICY}
            message = await receive()
            if message["type"] != "websocket.receive":
                return message
            reason = self._security.current(identity)
            if reason:
                await close(_CLOSE_POLICY, reason)
                return {"type": "websocket.disconnect", "code": _CLOSE_POLICY}
            text = message.get("text")
            # A character has at most four bytes, so encoding to count them is only needed near the limit.
            length = len(message.get("bytes") or b"") if text is None else len(text)
            if length > SOCKET_MESSAGE_BYTES_MAX or (
                text is not None and length * 4 > SOCKET_MESSAGE_BYTES_MAX < len(text.encode())
            ):
                await close(_CLOSE_TOO_BIG, f"a message has more than {SOCKET_MESSAGE_BYTES_MAX:,} bytes")
                return {"type": "websocket.disconnect", "code": _CLOSE_TOO_BIG}
            return message

        async def checked_send(message: ASGIMessage) -> None:
            if is_closed:
                raise ConnectionResetError("the guard has closed the socket")
            if message["type"] in ("websocket.accept", "websocket.send"):
                reason = self._security.current(identity)
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


_FAILED: Final = Answer(500, "the dashboard failed to answer; its log says why")
_TOO_LARGE: Final = Answer(
    413,
    f'{{"error": "the body has more than {BODY_BYTES_MAX:,} bytes"}}',
    (_JSON, (b"connection", b"close")),
)
