"""Headers that every response of the dashboard has."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from broker_cy.client.errors import ClientError, Failure
from broker_cy.http.addresses import LOOPBACK_NAMES, Host
from broker_cy.http.requests import Headers

# Browsers may cache responses below these paths: they contain the program and no data of a cluster. The addresses of
# Dash's scripts contain their version.
VERSIONED_PREFIXES: Final = ("/_dash-component-suites/",)
CACHED_PREFIXES: Final = ("/assets/", *VERSIONED_PREFIXES)
# The one response with a policy of its own: a page of another program, shown in a frame of the dashboard.
SANDBOXED_PATH: Final = "/report"
_SANDBOX: Final = "sandbox allow-scripts; "
HSTS_S: Final = 365 * 86_400
# The number of hosts whose headers are kept.
_HOSTS_CACHED_MAX: Final = 128
_HASH = re.compile(r"sha(?:256|384|512)-[A-Za-z0-9+/]+={0,2}")
# Only features that every current browser knows: browsers report others on the console.
_PERMISSIONS: Final = ("camera", "display-capture", "geolocation", "microphone", "midi", "payment", "usb")


def sandbox_policy(script_hashes: Sequence[str]) -> str:
    """Return the policy of the response at SANDBOXED_PATH. Without `allow-same-origin`, what it contains has another
    origin than the dashboard: it can neither read nor send anything as the viewer, and it may load nothing.
    """
    scripts = " ".join(f"'{each}'" for each in script_hashes) or "'none'"
    return (
        f"{_SANDBOX}default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; img-src data: blob:; "
        "form-action 'none'; frame-ancestors 'self'; base-uri 'none'"
    )


class PageHeaders:
    """Makes the headers of responses. `script_hashes` are the inline scripts that may run: sha256-BASE64; `frames`:
    pages may show other pages of the dashboard in frames.
    """

    def __init__(self, *, tls: bool, script_hashes: Sequence[str] = (), frames: bool = False) -> None:
        """Raises ClientError if one of the hashes is malformed."""
        for each in script_hashes:
            if _HASH.fullmatch(each) is None:
                reason = f"{each!r} is not the hash of a script: sha256-BASE64 is expected"
                raise ClientError(Failure.INVALID, reason, what="script_hashes")
        self._tls = tls
        self._frames = frames
        self._scripts = " ".join(("'self'", *(f"'{each}'" for each in script_hashes)))
        self._of_host = lru_cache(maxsize=_HOSTS_CACHED_MAX)(self._make)
        self._names = frozenset(name for name, _ in self._make(None)) | {b"server", b"strict-transport-security"}

    def _make(self, host: Host | None) -> tuple[tuple[bytes, bytes], ...]:
        sockets = ""
        if host is not None:
            port = "" if host.port is None else f":{host.port}"
            # Older versions of Safari do not count a WebSocket of the same host as 'self'.
            sockets = f" {'wss' if self._tls else 'ws'}://{host.name}{port}"
        policy = "; ".join(
            (
                "default-src 'none'",
                f"script-src {self._scripts}",
                # The component libraries set styles of elements.
                "style-src 'self' 'unsafe-inline'",
                "img-src 'self' data: blob:",
                "font-src 'self' data:",
                f"connect-src 'self'{sockets}",
                *(("frame-src 'self'",) if self._frames else ()),
                "form-action 'self'",
                "frame-ancestors 'none'",
                "base-uri 'none'",
            )
        )
        headers = {
            "content-security-policy": policy,
            "x-content-type-options": "nosniff",
            "x-frame-options": "DENY",
            # Not no-referrer: with it, browsers send forms with Origin: null, which cannot be checked.
            "referrer-policy": "same-origin",
            "cross-origin-opener-policy": "same-origin",
            "cross-origin-resource-policy": "same-origin",
            "permissions-policy": ", ".join(f"{name}=()" for name in _PERMISSIONS),
        }
        # It applies to all ports of a host, and other programs may use a loopback name without TLS.
        if self._tls and host is not None and host.name not in LOOPBACK_NAMES:
            headers["strict-transport-security"] = f"max-age={HSTS_S}"
        return tuple((name.encode(), value.encode()) for name, value in headers.items())

    def applied(self, headers: Headers, host: Host | None, *, path: str, status: int) -> Headers:
        """Return the headers of a response with these added; they replace those of the same names."""
        may_cache = status < 400 and path.startswith(CACHED_PREFIXES)
        replaced = self._names if may_cache else self._names | {b"cache-control"}
        kept = [(name, value) for name, value in headers if name.lower() not in replaced]
        kept.extend(self._of_host(host))
        if path == SANDBOXED_PATH and status == 200:
            kept = self._sandboxed(headers, kept)
        if not may_cache:
            kept.append((b"cache-control", b"no-store"))
        return kept

    @staticmethod
    def _sandboxed(own: Headers, headers: Headers) -> Headers:
        """Return the headers with the response's own policy, if it is a sandbox for a frame of the dashboard."""
        policies = [value for name, value in own if name.lower() == b"content-security-policy"]
        if len(policies) != 1 or not policies[0].startswith(_SANDBOX.encode()):
            return headers
        changed = {b"content-security-policy": policies[0], b"x-frame-options": b"SAMEORIGIN"}
        # Browsers refuse a page that is alone in a sandbox and requests a window of its own origin.
        return [(name, changed.get(name, value)) for name, value in headers if name != b"cross-origin-opener-policy"]
