"""Shared helpers of the tests of the dashboard's security: a clock, a dashboard behind the guard, and raw requests to
it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from dashboard.security import Identity, Role, Scope, Security, SecurityConfig
from dashboard.security.guard import Guard
from dashboard.security.routes import routes
from dashboard.security.users import User, hash_password, save_user

PORT = 8050
HOST = f"127.0.0.1:{PORT}"
ORIGIN = f"http://{HOST}"
PASSWORD = "correct horse battery"
_HASH = hash_password(PASSWORD)
HTML = ("accept", "text/html,*/*")

Header = tuple[str, str]


class Clock:
    """A clock that only the test moves."""

    def __init__(self) -> None:
        self.now_s = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now_s


class Answer(NamedTuple):
    status: int
    headers: list[Header]
    body: bytes

    def header(self, name: str) -> str:
        found = [value for key, value in self.headers if key == name]
        assert len(found) <= 1, f"{name} occurs {len(found)} times"
        return found[0] if found else ""

    @property
    def text(self) -> str:
        return self.body.decode()


def add_user(
    path: Path, name: str, role: Role = Role.VIEWER, scope: Scope | None = None, replace: bool = False
) -> User:
    """Add a user whose password is PASSWORD."""
    user = User(name, _HASH, role, scope or Scope())
    save_user(path, user, replace=replace)
    return user


async def _whoami(request: Request) -> Response:
    identity = request.scope["state"].get("identity")
    assert isinstance(identity, Identity)
    return JSONResponse({"name": identity.name, "role": identity.role.text, "address": identity.address})


async def _change(request: Request) -> Response:
    return PlainTextResponse(f"{len(await request.body())} bytes")


async def _fail(request: Request) -> Response:
    raise RuntimeError("a secret of the program")


async def _loose(request: Request) -> Response:
    headers = {"Content-Security-Policy": "default-src *", "Server": "test", "Cache-Control": "public, max-age=60"}
    return PlainTextResponse("text", headers=headers)


async def _live(socket: WebSocket) -> None:
    await socket.accept()
    try:
        while True:
            text = await socket.receive_text()
            await socket.send_text(f"{socket.scope['state']['identity'].name}: {len(text)}")
    except WebSocketDisconnect:
        pass


class Dashboard:
    """A small application behind the guard."""

    def __init__(self, tmp_path: Path, **changes: Any) -> None:
        self.clock = Clock()
        values = {"host": "127.0.0.1", "port": PORT, "state_directory": tmp_path / "state", "clock": self.clock}
        self.config = SecurityConfig(**{**values, **changes})
        self.start()

    def start(self) -> None:
        self.security = Security(self.config)
        self.inner = Starlette(
            routes=[
                *routes(self.security),
                Route("/", _whoami),
                Route("/change", _change, methods=["POST"]),
                Route("/fail", _fail),
                Route("/loose", _loose),
                Route("/healthz", lambda request: PlainTextResponse("ok")),
                Route("/assets/{name:path}", _loose),
                Route("/{name:path}", _whoami),
                WebSocketRoute("/live", _live),
            ]
        )
        self.app = Guard(self.inner, self.security)

    def restart(self) -> None:
        self.security.close()
        self.start()

    def send(
        self,
        method: str = "GET",
        target: str | bytes = "/",
        headers: Sequence[Header] = (),
        chunks: Iterable[bytes] = (b"",),
        address: str = "127.0.0.1",
        host: str | None = HOST,
    ) -> Answer:
        return asyncio.run(request(self.app, method, target, headers, chunks, address, host))

    def post(
        self, target: str, form: dict[str, str], headers: Sequence[Header] = (), address: str = "10.0.0.1"
    ) -> Answer:
        """Post a form as the dashboard's own page does."""
        sent = [("content-type", "application/x-www-form-urlencoded"), ("origin", ORIGIN), *headers]
        return self.send("POST", target, sent, [urlencode(form).encode()], address)

    def log_in(self, name: str, password: str = PASSWORD, address: str = "10.0.0.1", **form: str) -> Answer:
        return self.post("/login", {"name": name, "password": password, **form}, address=address)

    def cookie(self, name: str) -> Header:
        """Log in and return the header with the session's cookie."""
        answer = self.log_in(name)
        assert answer.status == 303, answer.text
        return "cookie", answer.header("set-cookie").partition(";")[0]

    def results(self) -> list[str]:
        """The results of the audit log, newest first."""
        return [entry.result for entry in self.security.audit.recent()]


async def request(
    app: Any,
    method: str,
    target: str | bytes,
    headers: Sequence[Header] = (),
    chunks: Iterable[bytes] = (b"",),
    address: str = "127.0.0.1",
    host: str | None = HOST,
) -> Answer:
    """Send one request as a server would: nothing normalizes the target, and no header is added except Host."""
    from urllib.parse import unquote

    raw = target if isinstance(target, bytes) else target.encode()
    path, _, query = raw.partition(b"?")
    sent = [(name.encode(), value.encode("latin-1")) for name, value in headers]
    if host is not None:
        sent.insert(0, (b"host", host.encode()))
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(path.decode("latin-1")),
        "raw_path": path,
        "query_string": query,
        "root_path": "",
        "headers": sent,
        "client": (address, 50_000),
        "server": ("127.0.0.1", PORT),
    }
    waiting = list(chunks)
    messages: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        if not waiting:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": waiting.pop(0), "more_body": bool(waiting)}

    async def send(message: Any) -> None:
        messages.append(message)

    try:
        await app(scope, receive, send)
    except RuntimeError:
        # Servers log this error.
        pass
    assert messages, "no answer"
    assert messages[0]["type"] == "http.response.start"
    assert [message["type"] for message in messages].count("http.response.start") == 1
    found = [(name.decode().lower(), value.decode("latin-1")) for name, value in messages[0]["headers"]]
    return Answer(messages[0]["status"], found, b"".join(message.get("body", b"") for message in messages[1:]))


# Makes a dashboard with other settings: the fixture `make`.
Make = Callable[..., Dashboard]


async def socket(dashboard: Dashboard, headers: list[Header], sent: list[Any], path: str = "/live") -> list[Any]:
    """Open a socket, send messages (a callable is called instead), and return the server's messages."""
    waiting: list[Any] = [{"type": "websocket.connect"}, *sent]
    answers: list[Any] = []
    scope = {
        "type": "websocket",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(b"host", HOST.encode()), *((name.encode(), value.encode()) for name, value in headers)],
        "client": ("10.0.0.1", 1),
        "server": ("127.0.0.1", PORT),
        "subprotocols": [],
    }

    async def receive() -> Any:
        while waiting and callable(waiting[0]):
            waiting.pop(0)()
        if not waiting:
            return {"type": "websocket.disconnect", "code": 1001}
        message = waiting.pop(0)
        return message if isinstance(message, dict) else {"type": "websocket.receive", "text": message}

    async def send(message: Any) -> None:
        answers.append(message)

    await dashboard.app(scope, receive, send)
    return answers


def run_socket(dashboard: Dashboard, headers: list[Header], sent: list[Any], path: str = "/live") -> list[Any]:
    return asyncio.run(socket(dashboard, headers, sent, path))


async def unused(*_: Any) -> Any:
    """Stands for `receive` or `send` if the application must not call it."""
    raise AssertionError
