"""The guard: the edge around the whole dashboard, with the login of its sessions.

Dash's own hooks do not cover its pages, assets and WebSockets, so nothing behind the edge is relied on. It adds the
headers of headers.py to every response.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Final
from urllib.parse import quote

from starlette.types import ASGIApp

from broker_cy.http.edge import Edge
from broker_cy.http.requests import HTML, TEXT, Answer, Request
from dashboard.security.core import Security
from dashboard.security.headers import PageHeaders
from dashboard.security.roles import Identity
from dashboard.security.targets import local_path

BODY_BYTES_MAX: Final = 8 << 20
# Browsers send only subscriptions over a socket, which are small.
SOCKET_MESSAGE_BYTES_MAX: Final = 64 << 10
METHODS: Final = ("GET", "HEAD", "POST", "OPTIONS")
# Open without a login: paths with their methods, and the paths of the identity provider's answers.
OPEN_PATHS: Final = {
    "/login": ("GET", "HEAD", "POST"),
    "/login.css": ("GET", "HEAD"),
    "/healthz": ("GET", "HEAD"),
}
OPEN_PREFIX: Final = "/oidc/"


class Guard(Edge[Identity]):
    """The middleware. `script_hashes` are those of the inline scripts of Dash's index page, as sha256-BASE64; `frames`:
    pages may show other pages of the dashboard in frames.
    """

    def __init__(
        self, app: ASGIApp, security: Security, script_hashes: Sequence[str] = (), *, frames: bool = False
    ) -> None:
        super().__init__(
            app,
            name="the dashboard",
            hosts=security.hosts,
            proxies=security.config.proxies,
            login=SessionLogin(security),
            headers=PageHeaders(tls=security.config.tls, script_hashes=script_hashes, frames=frames),
            methods=METHODS,
            needs_origin=True,
            body_bytes_max=BODY_BYTES_MAX,
            message_bytes_max=SOCKET_MESSAGE_BYTES_MAX,
            clock=security.clock,
        )


class SessionLogin:
    """The login by the cookie of a session."""

    hint = "broker-dash user add"

    def __init__(self, security: Security) -> None:
        self._security = security

    @property
    def is_required(self) -> bool:
        return self._security.login_required

    def identify(self, request: Request) -> Identity | None:
        return self._security.identify(request.cookies(self._security.sessions.cookie), request.address)

    def is_open(self, request: Request) -> bool:
        if request.is_socket:
            return False
        if request.path.startswith(OPEN_PREFIX):
            return request.method == "GET"
        return request.method in OPEN_PATHS.get(request.path, ())

    def needed(self, request: Request) -> Answer:
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
            return Answer(200, text, (HTML,), is_noted=False)
        location = "/login" if target == "/" else f"/login?next={quote(target, safe='')}"
        return Answer(303, "log in first", (TEXT, (b"location", location.encode())), is_noted=False)

    def ended(self, identity: Identity) -> str:
        return self._security.current(identity)

    def note(self, request: Request, identity: Identity | None, result: str) -> None:
        self._security.audit.note(
            user="" if identity is None else identity.name,
            address=request.address,
            act="socket" if request.is_socket else "request",
            subject=f"{request.method} {request.path}",
            result=result,
        )
