"""TLS of programs that serve HTTP, by Python's ssl: the key store, the trusted authorities of clients, and the files of
both, which are read again when they change.

A connection keeps the certificate that it began with. A file that cannot be used is ignored, the store that was read
last stays in use, and the error is logged once for each change.

Bound: files are checked at most once per LOOK_S, when a connection begins.
"""

from __future__ import annotations

import logging
import ssl
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from broker_cy.client.tls import VERSIONS, file_version, known_cipher, read_file, show
from broker_cy.core.classes import NamedTuple
from broker_cy.security.tls.stores import StoreError, StoreSettings, files_of, load_identity, load_trusted

LOOK_S: Final = 1.0
# TLS 1.2 suites with forward secrecy and authenticated encryption, the same as the broker's; Python's defaults include
# some with CBC.
TLS_12_CIPHERS: Final = "ECDHE+AESGCM:ECDHE+CHACHA20"

_LOG = logging.getLogger(__name__)


class ServerSettings(NamedTuple):
    """The offer of a listener. `asks`: it requests a certificate from clients; `requires`: it refuses clients without
    one. `ciphers` are those of TLS 1.2 by their names in Java, None for TLS_12_CIPHERS. `alpn` names the protocols
    that a client may choose from, the preferred one first (RFC 7301).
    """

    stores: StoreSettings
    oldest: str = "TLSv1.2"
    newest: str = "TLSv1.3"
    asks: bool = False
    requires: bool = False
    ciphers: tuple[str, ...] | None = None
    alpn: tuple[str, ...] = ()


def server_context() -> ssl.SSLContext:
    """Return a context without a key."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # Without tickets: a resumed connection would not check the client's certificate again.
    context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE
    context.set_ciphers(TLS_12_CIPHERS)
    return context


def context_of(settings: ServerSettings) -> ssl.SSLContext:
    """Read the stores. Raises StoreError."""
    identity = load_identity(settings.stores, read_file)
    if identity is None:
        raise StoreError(
            "https needs a key and a certificate: set ssl.keystore.location, or ssl.keystore.key and "
            "ssl.keystore.certificate.chain"
        )
    context = server_context()
    context.minimum_version, context.maximum_version = VERSIONS[settings.oldest], VERSIONS[settings.newest]
    if settings.ciphers:
        context.set_ciphers(":".join(known_cipher(name) for name in settings.ciphers))
    if settings.alpn:
        context.set_alpn_protocols(list(settings.alpn))
    show(context, identity)
    if settings.asks:
        trusted = load_trusted(settings.stores, read_file)
        if trusted is None:
            # The system's authorities would let every holder of a public certificate in.
            raise StoreError(
                "certificates of clients need ssl.truststore.location, or ssl.truststore.certificates, with the "
                "certificates that they are checked against"
            )
        # As in Java, each certificate of a trust store is trusted, also one that others have signed.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        try:
            context.load_verify_locations(cadata=b"".join(trusted))
        except ssl.SSLError as error:
            raise StoreError(f"the trust store cannot be used: {error.reason or error}") from None
        context.verify_mode = ssl.CERT_REQUIRED if settings.requires else ssl.CERT_OPTIONAL
    return context


class ReloadingContext(ssl.SSLContext):
    """Gives each connection the context of the files as they are now, for servers and for clients."""

    _load: Callable[[], ssl.SSLContext]
    _files: tuple[str, ...]
    _now_s: Callable[[], float]
    _current: ssl.SSLContext
    _seen: tuple[object, ...]
    _looked_s: float

    @classmethod
    def of(
        cls, load: Callable[[], ssl.SSLContext], files: Sequence[str], now_s: Callable[[], float] = time.monotonic
    ) -> ReloadingContext:
        """`load` returns the context of the files, and raises StoreError; the first time, so does this."""
        found = cls(ssl.PROTOCOL_TLS_SERVER)
        found._load, found._files, found._now_s = load, tuple(files), now_s
        found._seen, found._looked_s = found._versions(), now_s()
        found._current = load()
        return found

    @classmethod
    def of_settings(cls, settings: ServerSettings, now_s: Callable[[], float] = time.monotonic) -> ReloadingContext:
        """Raises StoreError."""
        return cls.of(lambda: context_of(settings), files_of(settings.stores), now_s)

    def _versions(self) -> tuple[object, ...]:
        return tuple(file_version(each) for each in self._files)

    def _look(self) -> None:
        now_s = self._now_s()
        if now_s - self._looked_s < LOOK_S:
            return
        self._looked_s = now_s
        versions = self._versions()
        if versions == self._seen:
            return
        self._seen = versions
        try:
            self._current = self._load()
        except StoreError as error:
            _LOG.error("%s; the certificate that was read before stays in use", error)
        else:
            _LOG.info("the certificate was read again: %s", ", ".join(self._files))

    def wrap_bio(self, *args: Any, **more: Any) -> ssl.SSLObject:
        """asyncio calls this for each connection."""
        self._look()
        return self._current.wrap_bio(*args, **more)
