"""Keeps pages of other origins away from locust's page, which has no protection of its own: it answers each origin
(CORS), and starts a run by a form that every page in the same browser can send.

What is refused, with 403 and a text: a request with an Origin that is not this page's, and, if the names of this server
are known, one with another name as Host (DNS rebinding). Programs that send no Origin, such as curl, are served.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Collection
from typing import Any
from urllib.parse import urlsplit

from flask import Response, request


def own_names(listen_host: str) -> frozenset[str]:
    """Return the names by which this machine is reached; its addresses are always allowed."""
    return frozenset(each.lower() for each in ("localhost", listen_host, socket.gethostname(), socket.getfqdn()))


def guard(app: Any, names: Collection[str] | None) -> None:
    """Let the app refuse foreign pages; `names` are those that a Host header may have, None allows each."""

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
