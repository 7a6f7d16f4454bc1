"""What a listener with SSL or SASL_SSL needs: the context of its sessions, its handshakes, and whom a certificate
stands for.

Imported only where a listener has TLS. The files of key stores and trust stores are read at the start, when
settings name others, and when `look` finds them changed; connections that are open keep what they began with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker_cy.client.tls import file_version, read_file
from broker_cy.config.types import ConfigError
from broker_cy.core.openssl import TlsContext, TlsError
from broker_cy.security.tls.certificate import CertificateError, read_certificate
from broker_cy.security.tls.principal import MappingError, PrincipalMapper
from broker_cy.security.tls.stores import Identity, StoreError, files_of, load_identity, load_trusted
from broker_cy.server.connections.handshakes import Handshake, Handshakes

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker_cy.config.tls import TlsListener as Settings
    from broker_cy.security.tls.certificate import Certificate
    from broker_cy.server.connections.tls_transport import TlsTransport
    from broker_cy.server.connections.transport import Transport
    from broker_cy.server.login_counts import TlsCounts
    from broker_cy.server.telemetry.certificate_reports import CertificateReports


def versions_of(settings: Settings) -> tuple[tuple[int, ...] | None, ...]:
    """What tells that a file has changed: its size and time; None for one that is not there."""
    return tuple(file_version(location) for location in files_of(settings.stores))


class TlsListener:
    """The TLS of one listener. Raises ConfigError if its certificates cannot be used."""

    def __init__(
        self, name: str, settings: Settings, handshakes: Handshakes, counts: TlsCounts, reports: CertificateReports
    ) -> None:
        self.name = name
        self._reports = reports
        self.settings = settings
        self.counts = counts
        self._handshakes = handshakes
        self._mapper = PrincipalMapper(settings.rules) if settings.rules else None
        self.identity, self.context = self._load(settings)
        self._versions = versions_of(settings)

    def check(self, settings: Settings) -> None:
        """Check whether other stores may replace those of now. Raises ConfigError."""
        self._compatible(settings)

    def replace(self, settings: Settings) -> None:
        """Use other stores for connections from now on. Raises ConfigError, and nothing changes."""
        versions, before = versions_of(settings), self.certificate
        self.identity, self.context = self._compatible(settings)
        self.settings, self._versions = settings, versions
        self._reports.exchanged(self.name, before, self.certificate)

    def refused(self, reason: ConfigError) -> None:
        """Report that other stores are not used."""
        self._reports.refused(self.name, str(reason), self.certificate)

    @property
    def certificate(self) -> Certificate:
        return self.identity.certificate

    def look(self) -> None:
        """Use the contents of its files if they have changed; if they do not fit, those of before stay in use. Report a
        certificate that ends soon.
        """
        self._look_at_files()
        self.look_at_end()

    def look_at_end(self) -> None:
        self._reports.look(self.name, self.certificate)

    def _look_at_files(self) -> None:
        versions = versions_of(self.settings)
        if versions == self._versions:
            return
        try:
            self.replace(self.settings)
        except ConfigError as error:
            # Reported once for each change.
            self._versions = versions
            self.refused(error)

    def _compatible(self, settings: Settings) -> tuple[Identity, TlsContext]:
        """Kafka's rule: whoever checks the old certificate must accept the new one."""
        found = self._load(settings)
        old, new = self.certificate, found[0].certificate
        if old.subject != new.subject and not settings.allows_dn_changes:
            raise ConfigError(
                f"listener {self.name}: Keystore DistinguishedName does not match: existing={old.subject}, "
                f"new={new.subject}; ssl.allow.dn.changes allows it"
            )
        if not old.alternative_names <= new.alternative_names and not settings.allows_san_changes:
            raise ConfigError(
                f"listener {self.name}: Keystore SubjectAltNames do not match: the new certificate lacks some of the "
                "names of the one before; ssl.allow.san.changes allows it"
            )
        return found

    def _load(self, settings: Settings) -> tuple[Identity, TlsContext]:
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
        return identity, context

    def begin(
        self,
        socket: Transport,
        on_done: Callable[[TlsTransport, str | None], None],
        on_failed: Callable[[str], None],
    ) -> None:
        """Shake hands with a client that has connected. One of the two is called, the first with the principal."""

        def shaken(transport: TlsTransport) -> None:
            try:
                principal = self._principal(transport)
            except (MappingError, CertificateError) as error:
                transport.close_now()
                failed(str(error))
                return
            self.counts.handshakes[self.name, True] += 1
            on_done(transport, principal)

        def failed(reason: str) -> None:
            self.counts.handshakes[self.name, False] += 1
            on_failed(reason)

        Handshake(self._handshakes, self.context, socket, shaken, failed)

    def _principal(self, transport: TlsTransport) -> str | None:
        """Whom the certificate stands for; None without one, and on a listener with SASL, where the login says that."""
        if self._mapper is None:
            return None
        der = transport.session.peer_certificate
        if der is None:
            return None
        return f"User:{self._mapper.name_of(read_certificate(der).subject)}"
