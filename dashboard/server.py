"""Runs the dashboard: binds the address, builds everything, and serves until a signal ends it."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import socket
import ssl
from collections.abc import Iterable, Iterator
from pathlib import Path

import uvicorn

from broker_cy.admin.collector import relax_collector
from broker_cy.client.clusters import ClusterEntry
from broker_cy.client.errors import ClientError, Failure
from broker_cy.console.alerts.rules import AlertSettings
from broker_cy.console.alerts.rules import load_settings as load_alerts
from broker_cy.console.alerts.watch import Alerting
from dashboard.app import build
from dashboard.collector.hub import ClusterHub
from dashboard.config import DashboardConfig
from dashboard.context import Context
from dashboard.live.protocol import SocketProtocol
from dashboard.live.viewer import MESSAGE_BYTES_MAX
from dashboard.security import Security, SecurityConfig

# Connections that wait for the loop to accept them: after a restart, 500 tabs may reconnect at the same time.
BACKLOG = 1_024
# Names of clusters in the paths of pages; escapes of other characters are refused there (security/addresses.py).
_NAME = re.compile(r"[^/\\%\x00-\x1f\x7f]+")
TLS_12_CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"
# The time limit for requests that are unfinished at shutdown.
SHUTDOWN_S = 3


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


def bind(config: DashboardConfig) -> socket.socket:
    """Return a socket that listens on the address. Raises ClientError."""
    try:
        family, _, _, _, address = socket.getaddrinfo(config.host, config.port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family, backlog=BACKLOG)
    except OSError as error:
        raise ClientError(
            Failure.INVALID, f"cannot listen on {config.host}:{config.port}: {error.strerror}", what="listen"
        ) from None


def serve(
    config: DashboardConfig,
    entries: Iterable[ClusterEntry],
    *,
    are_named: bool,
    timeout_s: float | None,
    as_json: bool = False,
) -> None:
    """Serve the clusters until SIGINT or SIGTERM; `as_json`: the address is printed as JSON. Raises ClientError."""
    _check_certificate(config)
    entries = tuple(entries)
    for entry in entries:
        if not _NAME.fullmatch(entry.name):
            raise ClientError(
                Failure.INVALID,
                "the name is part of addresses: it must not have / \\ % or control characters",
                what=f"cluster {entry.name!r}",
            )
    bound = bind(config)
    with contextlib.ExitStack() as stack:
        stack.callback(bound.close)
        port = bound.getsockname()[1]
        security = Security(
            SecurityConfig(
                config.host,
                port,
                config.state,
                config.hosts,
                config.users,
                config.oidc,
                config.masks,
                config.uses_https,
                config.trusted_proxies,
            )
        )
        stack.callback(security.close)
        rules = AlertSettings() if config.alerts is None else load_alerts(config.alerts)
        alerts = Alerting(rules, notifies=config.notifies)
        hubs = {
            entry.name: ClusterHub(
                entry,
                alerts,
                environment=config.environments.get(entry.name, ""),
                is_named=are_named,
                is_readonly=config.is_readonly,
                state_directory=config.state,
                masking=security.masking,
                timeout_s=timeout_s,
            )
            for entry in entries
        }
        unknown = sorted(set(config.environments) - set(hubs))
        if unknown and are_named:
            raise ClientError(
                Failure.INVALID,
                f"{unknown[0]!r} is no cluster of the dashboard: {', '.join(hubs)}",
                what="environments",
            )
        app = build(Context(hubs, security, config.is_readonly, report=config.report), alerts)
        scheme = "https" if config.tls_certificate is not None else "http"
        host = f"[{config.host}]" if ":" in config.host else config.host
        login = "a login is needed" if security.login_required else "no login, on this machine only"
        url = f"{scheme}://{host}:{port}/"
        ready = f"broker-dash: {url} ({login}); Ctrl-C ends it"
        if as_json:
            ready = json.dumps({"url": url, "login_required": security.login_required})
        server = Server(
            uvicorn.Config(
                app,
                http="h11",
                ws=SocketProtocol,
                ws_max_size=MESSAGE_BYTES_MAX,
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
                ssl_certfile=config.tls_certificate,
                ssl_keyfile=config.tls_key,
            ),
            ready,
        )
        # Otherwise each answer about a large cluster is scanned for cycles several times while it is decoded, and no
        # viewer is served during a scan.
        relax_collector()
        server.run(sockets=[bound])


def _check_certificate(config: DashboardConfig) -> None:
    """Raise ClientError if certificate and key cannot be used, before anything is opened."""
    if config.tls_certificate is None or config.tls_key is None:
        return
    for path in (config.tls_certificate, config.tls_key):
        if not Path(path).is_file():
            raise ClientError(Failure.INVALID, "there is no such file", what=str(path))
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(config.tls_certificate, config.tls_key)
    except (ssl.SSLError, OSError) as error:
        raise ClientError(
            Failure.INVALID, f"certificate and key cannot be used: {error}", what=str(config.tls_certificate)
        ) from None
