"""The server of an ASGI application: it listens, with TLS or without, and serves until a signal ends it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import ssl
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from broker_cy.client.errors import ClientError, Failure
from broker_cy.core.classes import NamedTuple
from broker_cy.http.bounds import HEAD_BYTES_MAX
from broker_cy.http.tls import ReloadingContext, server_context
from broker_cy.security.tls.stores import StoreError

# Connections that wait for the loop to accept them: after a restart, 500 tabs of a browser may reconnect at the same
# time.
BACKLOG = 1_024
# The time limit for requests that are unfinished at shutdown.
SHUTDOWN_S = 3
HANDSHAKE_S = 10.0
_UVICORN_LOG = "uvicorn.error"


class Certificate(NamedTuple):
    """PEM files: the certificate with its chain, and its key."""

    chain: Path
    key: Path

    def context(self) -> ReloadingContext:
        """Return the context of a listener. Raises ClientError if certificate and key cannot be used."""
        for path in self:
            if not path.is_file():
                raise ClientError(Failure.INVALID, "there is no such file", what=str(path))
        try:
            return ReloadingContext.of(self._load, tuple(map(str, self)))
        except StoreError as error:
            raise ClientError(Failure.INVALID, str(error), what=str(self.chain)) from None

    def _load(self) -> ssl.SSLContext:
        """Raises StoreError."""
        context = server_context()

        def encrypted() -> str:
            raise StoreError("the private key is encrypted; none may be")

        try:
            context.load_cert_chain(self.chain, self.key, password=encrypted)
        except (ssl.SSLError, OSError) as error:
            raise StoreError(f"certificate and key cannot be used: {error}") from None
        return context


class Listening(NamedTuple):
    """A socket that is bound, and the TLS of its connections; None for http."""

    bound: socket.socket
    tls: ssl.SSLContext | None = None


class Sockets(NamedTuple):
    """The WebSockets of an application: the protocol of uvicorn, and the largest message."""

    protocol: type[Any]
    message_bytes_max: int


class Server(uvicorn.Server):
    """Shuts down cleanly at SIGINT and SIGTERM; uvicorn's own server would then end the process with the signal.
    `ready` is printed when requests are served: an earlier signal would not be noticed. Without `logs_failure`, the
    application reports why it cannot start.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        ready: str,
        listening: Sequence[Listening],
        connections: Callable[..., asyncio.Protocol],
        *,
        logs_failure: bool,
    ) -> None:
        super().__init__(config)
        self._logs_failure = logs_failure
        self._ready = ready
        self._listening = listening
        self._connections = connections

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        # Starts the application, and no listener: uvicorn knows one TLS for all of them.
        log = logging.getLogger(_UVICORN_LOG)
        log.disabled = not self._logs_failure
        try:
            await super().startup([])
        finally:
            log.disabled = False
        if not self.started:
            return
        loop = asyncio.get_running_loop()

        def accept() -> asyncio.Protocol:
            return self._connections(self.config, self.server_state, self.lifespan.state, loop)

        for bound, tls in self._listening:
            wait_s = None if tls is None else HANDSHAKE_S
            self.servers.append(
                await loop.create_server(accept, sock=bound, ssl=tls, backlog=BACKLOG, ssl_handshake_timeout=wait_s)
            )
        print(self._ready, flush=True)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self.handle_exit)
        yield


def bind(host: str, port: int) -> socket.socket:
    """Return a socket that listens on the address. Raises ClientError."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family, backlog=BACKLOG)
    except OSError as error:
        raise ClientError(Failure.INVALID, f"cannot listen on {host}:{port}: {error.strerror}", what="listen") from None


def serve(
    app: ASGIApp,
    listening: Sequence[Listening],
    ready: str,
    sockets: Sockets | None = None,
    connections: Callable[..., asyncio.Protocol] | None = None,
    failure: Callable[[], ClientError | None] | None = None,
) -> None:
    """Serve the application until SIGINT or SIGTERM; without `sockets`, it has no WebSockets. `connections` makes
    the protocol of a connection from uvicorn's arguments, and keeps the bounds of http.bounds; by default it is
    BoundedProtocol. `failure` returns why the application could not start, which is raised; without it, uvicorn logs
    the reason and ends the process.
    """
    if connections is None:
        # Imported here, because programs with another protocol start sooner without h11.
        from broker_cy.http.protocol import BoundedProtocol

        connections = BoundedProtocol
    protocol, message_bytes_max = sockets or ("none", 0)
    server = Server(
        uvicorn.Config(
            app,
            h11_max_incomplete_event_size=HEAD_BYTES_MAX,
            ws=protocol,
            ws_max_size=message_bytes_max,
            # Frames are small, and compressing them for each viewer would cost more than everything else.
            ws_per_message_deflate=False,
            # Warnings are about requests that are malformed, of any client: they would fill the log.
            log_level="error",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=SHUTDOWN_S,
        ),
        ready,
        listening,
        connections,
        logs_failure=failure is None,
    )
    try:
        server.run(sockets=[each.bound for each in listening])
    except SystemExit:
        if failure is None or (error := failure()) is None:
            raise
        raise error from None
