"""A dashboard on a real socket."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import uvicorn

from dashboard.live.protocol import SocketProtocol
from dashboard.security import OidcConfig
from tests.dashboard.security.kit import Dashboard, add_user
from tests.support.wait import until


class Server:
    """A dashboard served by uvicorn in a thread."""

    def __init__(self, tmp_path: Path, oidc: Callable[[str], OidcConfig] | None = None) -> None:
        """`oidc` makes the configuration of an identity provider from the dashboard's origin."""
        self.users_path = tmp_path / "users.toml"
        add_user(self.users_path, "anna")
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.origin = f"http://127.0.0.1:{self.port}"
        provider = None if oidc is None else oidc(self.origin)
        self.dashboard = Dashboard(tmp_path, port=self.port, users_path=self.users_path, oidc=provider)
        config = uvicorn.Config(self.dashboard.app, ws=SocketProtocol, log_level="warning", proxy_headers=False)
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=lambda: asyncio.run(self.server.serve([self.listener])))

    def __enter__(self) -> Server:
        self.thread.start()
        until(lambda: self.server.started, "the server")
        return self

    def __exit__(self, *_: object) -> None:
        self.server.should_exit = True
        self.thread.join(30)
        self.listener.close()
        self.dashboard.security.close()

    def cookie(self) -> str:
        users = self.dashboard.security.users
        assert users is not None
        user = users.get("anna")
        assert user is not None
        sessions = self.dashboard.security.sessions
        return f"{sessions.cookie}={sessions.issue('anna', 'password', user.fingerprint())[0]}"

    def exchange(self, lines: list[str], body: bytes = b"") -> bytes:
        """Send a request as it is, and return everything that the server sends until it closes the connection."""
        head = "\r\n".join([*lines, f"Host: 127.0.0.1:{self.port}", f"Cookie: {self.cookie()}", "", ""])
        with socket.create_connection(("127.0.0.1", self.port), 30) as connection:
            answer = b""
            try:
                connection.sendall(head.encode("latin-1") + body)
            except (BrokenPipeError, ConnectionResetError):
                pass
            try:
                while part := connection.recv(65_536):
                    answer += part
            except ConnectionResetError:
                # The server closed the connection before it had read the rest of the body.
                pass
            return answer
