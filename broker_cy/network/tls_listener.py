"""The TLS of a listener with SSL or SASL_SSL: the context of its sessions, its handshakes, and the principals of
certificates.

Imported only if a listener has TLS. Its key store and trust store may be exchanged (`node_tls`); open connections keep
their stores.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker_cy.client.tls import read_file
from broker_cy.core.classes import NamedTuple
from broker_cy.core.config_def.types import ConfigError
from broker_cy.core.openssl import TlsContext, TlsError
from broker_cy.network.handshakes import Failure, Handshake, Handshakes
from broker_cy.security.tls.certificate import CertificateError
from broker_cy.security.tls.principal import CertificatePrincipals, MappingError
from broker_cy.security.tls.stores import Identity, StoreError, check_exchange, load_identity, load_trusted

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker_cy.config.tls import TlsListener as Settings
    from broker_cy.metrics.login_counts import TlsCounts
    from broker_cy.network.tls_transport import TlsTransport
    from broker_cy.network.transport import Transport


class Loaded(NamedTuple):
    identity: Identity
    context: TlsContext


class TlsListener:
    """The TLS of one listener. Raises ConfigError if its certificates cannot be used."""

    def __init__(self, name: str, settings: Settings, handshakes: Handshakes, counts: TlsCounts) -> None:
        self.name = name
        self.settings = settings
        self.counts = counts
        self._handshakes = handshakes
        self._principals = CertificatePrincipals(settings.rules) if settings.rules else None
        self.identity, self.context = self._load(settings)

    def compatible(self, settings: Settings) -> Loaded:
        """Load other stores, if they may replace the current ones. Raises ConfigError."""
        found = self._load(settings)
        try:
            check_exchange(
                (self.settings.stores, self.identity),
                (settings.stores, found.identity),
                allows_dn_changes=settings.allows_dn_changes,
                allows_san_changes=settings.allows_san_changes,
            )
        except StoreError as error:
            raise ConfigError(f"listener {self.name}: {error}") from None
        return found

    def use(self, settings: Settings, found: Loaded) -> None:
        """For connections from now on."""
        self.settings = settings
        self.identity, self.context = found

    def _load(self, settings: Settings) -> Loaded:
        try:
            identity = load_identity(settings.stores, read_file)
            assert identity is not None  # config.tls
            trusted = load_trusted(settings.stores, read_file) if settings.asks else None
            context = TlsContext(
                is_server=True,
                oldest=settings.oldest,
                newest=settings.newest,
                ciphers=settings.ciphers,
                suites=settings.suites,
                chain=identity.chain,
                key=identity.key,
                trusted=trusted,
                asks=settings.asks,
                requires=settings.requires,
            )
        except (StoreError, TlsError) as error:
            raise ConfigError(f"listener {self.name}: {error}") from None
        return Loaded(identity, context)

    def begin(
        self,
        socket: Transport,
        on_done: Callable[[TlsTransport, str | None], None],
        on_failed: Callable[[Failure], None],
    ) -> None:
        """Shake hands with a client that has connected. One of the two is called, the first with the principal."""

        def shaken(transport: TlsTransport) -> None:
            try:
                principal = self._principal(transport)
            except (MappingError, CertificateError) as error:
                transport.close_now()
                failed(Failure(str(error), True))
                return
            self.counts.handshakes[self.name, True] += 1
            on_done(transport, principal)

        def failed(failure: Failure) -> None:
            self.counts.handshakes[self.name, False] += 1
            on_failed(failure)

        Handshake(self._handshakes, self.context, socket, shaken, failed)

    def _principal(self, transport: TlsTransport) -> str | None:
        """The principal of the certificate; None without one, and with SASL, because the login names the principal."""
        if self._principals is None:
            return None
        der = transport.session.peer_certificate
        return None if der is None else self._principals.of(der)
