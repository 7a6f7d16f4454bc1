"""The version of the program, and of the OpenSSL that this build is linked with, if any."""

from __future__ import annotations

from typing import Final

from broker_cy import __version__

# The message where TLS is needed and this build has none.
WITHOUT_TLS: Final = (
    "this build has no TLS: the headers of OpenSSL were missing when it was built; install those of version 3.0 or "
    "later (Debian: apt-get install libssl-dev), and build again"
)


def openssl_version() -> str | None:
    """Such as "OpenSSL 3.5.5 27 Jan 2026"; None if this build has no TLS."""
    try:
        from broker_cy.core import openssl
    except ImportError:
        return None
    return openssl.version()


def version_text() -> str:
    """For --version. Loads the library of TLS."""
    return f"broker-cy {__version__} ({openssl_version() or 'without TLS'})"
