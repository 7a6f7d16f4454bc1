"""Reads the content of a URL of an OAuth provider, which settings name. Blocks.

As in Java, only that URL is read: no redirection is followed, and no proxy of the environment is used.
"""

from __future__ import annotations

from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

# The limit of each wait for the server.
TIMEOUT_S: Final = 10.0


def wrong_with(url: str) -> str | None:
    """Why the URL is not one to be read: it is https, file, or http of an address of this machine."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return "it is no URL"
    if parts.scheme not in ("https", "http", "file") or (parts.scheme != "file" and not host):
        return "use https://... or file:///..."
    if parts.scheme == "http" and not _is_loopback(host):
        return "an attacker on the way could read and change the data; use https"
    return None


def is_file(url: str) -> bool:
    return urlsplit(url).scheme == "file"


def read(url: str, bytes_max: int, *, form: bytes | None = None, headers: dict[str, str] | None = None) -> bytes:
    """At most `bytes_max` bytes and one more; `form` is sent, if it is given. Raises OSError, ValueError."""
    if is_file(url):
        with Path(unquote(urlsplit(url).path)).open("rb") as file:
            return file.read(bytes_max + 1)
    # Few clients read URLs, and the library takes longer to import than a client to start.
    import ssl
    import urllib.request

    class NoRedirect(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *_: Any) -> None:
            """Do not follow: the target is not among the allowed ones."""

    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}),
        urllib.request.HTTPSHandler(context=ssl.create_default_context()),
        NoRedirect(),
    )
    request = urllib.request.Request(url, data=form, headers={"Accept": "application/json", **(headers or {})})
    with opener.open(request, timeout=TIMEOUT_S) as answer:
        found = answer.read(bytes_max + 1)
    assert isinstance(found, bytes)
    return found


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
