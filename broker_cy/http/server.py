"""The server of an ASGI application: it listens, with TLS or without, and serves until a signal ends it."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, cast

import uvicorn
from starlette.types import ASGIApp

from broker_cy.client.errors import ClientError, Failure

# Connections that wait for the loop to accept them: after a restart, 500 tabs of a browser may reconnect at the same
# time.
BACKLOG = 1_024
TLS_12_CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"
# The time limit for requests that are unfinished at shutdown.
SHUTDOWN_S = 3


class Certificate(NamedTuple):
    """PEM files: the certificate with its chain, and its key."""

    chain: Path
    key: Path

    def check(self) -> None:
        """Raise ClientError if certificate and key cannot be used."""
        for path in self:
            if not path.is_file():
                raise ClientError(Failure.INVALID, "there is no such file", what=str(path))
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(self.chain, self.key)
        except (ssl.SSLError, OSError) as error:
            raise ClientError(
                Failure.INVALID, f"certificate and key cannot be used: {error}", what=str(self.chain)
            ) from None


class Sockets(NamedTuple):
    """The WebSockets of an application: the protocol of uvicorn, and the largest message."""

    protocol: type[Any]
    message_bytes_max: int


class Server(uvicorn.Server):
    """Shuts down cleanly at SIGINT and SIGTERM; uvicorn's own server would then end the process with the signal.
    `ready` is printed when requests are served: an earlier signal would not be noticed.
    """

    def __init__(self, config: uvicorn.Config, ready: str) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
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
    bound: socket.socket,
    ready: str,
    certificate: Certificate | None = None,
    sockets: Sockets | None = None,
    connections: Callable[..., asyncio.Protocol] | None = None,
) -> None:
    """Serve the application until SIGINT or SIGTERM; without `sockets`, it has no WebSockets. `connections` makes
    the protocol of a connection from uvicorn's arguments, None for uvicorn's own.
    """
    protocol, message_bytes_max = sockets or ("none", 0)
    server = Server(
        uvicorn.Config(
            app,
            # uvicorn calls whatever it is given as it calls its own classes.
            http="h11" if connections is None else cast(type[asyncio.Protocol], connections),
            ws=protocol,
            ws_max_size=message_bytes_max,
            # Frames are small, and compressing them for each viewer would cost more than everything else.
            ws_per_message_deflate=False,
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=SHUTDOWN_S,
            # TLS 1.2 suites with forward secrecy and authenticated encryption, the same as the broker's; Python's
            # defaults include some with CBC.
            ssl_ciphers=TLS_12_CIPHERS,
            ssl_certfile=None if certificate is None else certificate.chain,
            ssl_keyfile=None if certificate is None else certificate.key,
        ),
        ready,
    )
    server.run(sockets=[bound])
