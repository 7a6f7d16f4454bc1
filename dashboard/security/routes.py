"""The routes of login, logout and the identity provider, for an application to add."""

from __future__ import annotations

from starlette.routing import Route

from dashboard.security.core import Security
from dashboard.security.login import LoginPages


def routes(security: Security) -> list[Route]:
    """Return all routes; those of the identity provider if one is configured. Raises ClientError."""
    pages = LoginPages(security)
    found = [
        Route("/login", pages.show, methods=["GET"]),
        Route("/login", pages.log_in, methods=["POST"]),
        Route("/login.css", pages.css, methods=["GET"]),
        Route("/logout", pages.ask_logout, methods=["GET"]),
        Route("/logout", pages.log_out, methods=["POST"]),
    ]
    if security.oidc is None:
        return found
    # Importing Authlib takes 0.3 s and 15 MB.
    from dashboard.security.oidc import Oidc

    return [*found, *Oidc(security.oidc, security).routes()]
