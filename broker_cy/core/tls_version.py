"""Which OpenSSL this build is linked with."""

from __future__ import annotations


def openssl_version() -> str | None:
    """Such as "OpenSSL 3.5.5 27 Jan 2026"; None where this build has no TLS."""
    try:
        from broker_cy.core import openssl
    except ImportError:
        return None
    return openssl.version()
