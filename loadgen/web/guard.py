"""Protects locust's page from pages of other origins. Locust has no such protection: it answers every origin (CORS),
and any page in the same browser can send the form that starts a run.

A request is denied, with 403 and a text, if its Origin is not this page's, or if the names of this server are known and
its Host is another one (DNS rebinding). Programs that send no Origin, such as curl, are served.

Hosts are read as at the edge of other programs (`broker_cy.http`). Its class `Hosts` also compares ports and schemes,
and has a setting for exceptions. This page has no such setting, and is reached through tunnels and mapped ports.
"""

from __future__ import annotations

import socket
from collections.abc import Collection
from typing import Any

from flask import Response, request

from broker_cy.http.addresses import LOOPBACK_NAMES, host_name, is_address, parse_host


def own_names(listen_host: str) -> frozenset[str]:
    """Return the names of this machine; its addresses are always allowed."""
    names = (listen_host, socket.gethostname(), socket.getfqdn())
    return frozenset((*LOOPBACK_NAMES, *map(host_name, names)))


def guard(app: Any, names: Collection[str] | None) -> None:
    """Let the app deny requests of foreign pages; `names` are allowed in the Host header, None allows every name."""

    def check() -> Response | None:
        origin, host = request.headers.get("Origin"), parse_host(request.host)
        if origin is not None and (host is None or parse_host(origin.partition("://")[2]) != host):
            return _refused(f"the origin {origin!r} is not {request.host!r}")
        if names is not None and (host is None or not (host.name in names or is_address(host.name))):
            allowed = f"allowed: addresses, {', '.join(sorted(names))}"
            return _refused(f"the host {request.host!r} is not this server ({allowed})")
        return None

    app.before_request(check)


def _refused(why: str) -> Response:
    return Response(f"Refused: {why}.\n", 403, content_type="text/plain; charset=utf-8")
