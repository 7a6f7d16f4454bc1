"""Runs the dashboard: binds the address, builds everything, and serves until a signal ends it."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterable

from broker_cy.admin.collector import relax_collector
from broker_cy.client.clusters import ClusterEntry
from broker_cy.client.errors import ClientError, Failure
from broker_cy.console.alerts.rules import AlertSettings
from broker_cy.console.alerts.rules import load_settings as load_alerts
from broker_cy.console.alerts.watch import Alerting
from broker_cy.http import server
from broker_cy.http.server import Certificate, Listening, Sockets, bind
from dashboard.app import build
from dashboard.collector.hub import ClusterHub
from dashboard.config import DashboardConfig
from dashboard.context import Context
from dashboard.live.protocol import SocketProtocol
from dashboard.live.viewer import MESSAGE_BYTES_MAX
from dashboard.security import Security, SecurityConfig

# Names of clusters in the paths of pages; escapes of other characters are refused there (broker_cy/http/addresses.py).
_NAME = re.compile(r"[^/\\%\x00-\x1f\x7f]+")


def serve(
    config: DashboardConfig,
    entries: Iterable[ClusterEntry],
    *,
    are_named: bool,
    timeout_s: float | None,
    as_json: bool = False,
) -> None:
    """Serve the clusters until SIGINT or SIGTERM; `as_json`: the address is printed as JSON. Raises ClientError."""
    tls = None
    if config.tls_certificate is not None and config.tls_key is not None:
        # Before anything is opened.
        tls = Certificate(config.tls_certificate, config.tls_key).context()
    entries = tuple(entries)
    for entry in entries:
        if not _NAME.fullmatch(entry.name):
            raise ClientError(
                Failure.INVALID,
                "the name is part of addresses: it must not have / \\ % or control characters",
                what=f"cluster {entry.name!r}",
            )
    bound = bind(config.host, config.port)
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
        # Otherwise each answer about a large cluster is scanned for cycles several times while it is decoded, and no
        # viewer is served during a scan.
        relax_collector()
        server.serve(app, [Listening(bound, tls)], ready, Sockets(SocketProtocol, MESSAGE_BYTES_MAX))
