"""Protects locust's page from pages of other origins. Locust has no such protection: it answers every origin (CORS),
and any page in the same browser can send the form that starts a run.

A request is denied, with 403 and a text, if its Origin is not this page's, or if the names of this server are known and
its Host is another one (DNS rebinding). Programs that send no Origin, such as curl, are served.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Collection
from typing import Any
from urllib.parse import urlsplit

from flask import Response, request


def own_names(listen_host: str) -> frozenset[str]:
    """Return the names of this machine; its addresses are always allowed."""
    return frozenset(each.lower() for each in ("localhost", listen_host, socket.gethostname(), socket.getfqdn()))


def guard(app: Any, names: Collection[str] | None) -> None:
    """Let the app deny requests of foreign pages; `names` are allowed in the Host header, None allows every name."""

    def check() -> Response | None:
        origin, host = request.headers.get("Origin"), request.host.lower()
        if origin is not None and urlsplit(origin).netloc.lower() != host:
            return _refused(f"the origin {origin!r} is not {host!r}")
        if names is not None and not _is_own(host, names):
            return _refused(f"the host {host!r} is not this server (allowed: addresses, {', '.join(sorted(names))})")
        return None

    app.before_request(check)


def _is_own(host: str, names: Collection[str]) -> bool:
    name = urlsplit(f"//{host}").hostname or ""
    if name in names:
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _refused(why: str) -> Response:
    return Response(f"Refused: {why}.\n", 403, content_type="text/plain; charset=utf-8")
