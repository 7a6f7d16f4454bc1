"""The page that is opened after a login."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote, urlsplit

from broker_cy.http.addresses import path_problem

NEXT_CHARACTERS_MAX: Final = 2_000


def local_path(text: str) -> str:
    """Return the path and query of `text` for a Location header if it is a page of the dashboard, else "/".

    Browsers read //host, /\\host and http:host as other hosts, and drop tabs and line breaks.
    """
    if not 1 <= len(text) <= NEXT_CHARACTERS_MAX or not text.isprintable() or " " in text or "\\" in text:
        return "/"
    try:
        parts = urlsplit(text)
    except ValueError:
        return "/"
    encoded = quote(text, safe="/?&=%#:@!$'()*+,;~-._")
    raw = encoded.partition("?")[0].partition("#")[0].encode()
    if parts.scheme or parts.netloc or path_problem(raw, parts.path):
        return "/"
    first = parts.path.split("/")[1]
    # They would return to the login.
    return "/" if first in ("login", "login.css", "logout", "oidc") else encoded
