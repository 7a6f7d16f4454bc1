"""The key stores and trust stores of a node: of its listeners, and of its connections to other nodes.

They are read at the start, when settings name others (KIP-226), and when their files change. A listener between nodes
has two halves, one for serving and one for connecting to the same listener of other nodes: both are exchanged, or none.
Open connections keep their stores.

As in Kafka, the two halves of the listener between brokers must accept each other, at the start and in an exchange. In
an exchange the new halves must accept the old ones, and vice versa, because a node connects to nodes that still have
the old ones (SslFactory's SslEngineValidator). This check does not compare names in certificates.

A handshake of the two halves in memory is bounded: at most STEPS_MAX steps, without waiting.
"""

from __future__ import annotations

import socket
import ssl
from typing import TYPE_CHECKING, Final

from broker_cy.client.tls import context_and_identity, file_version, read_file
from broker_cy.config.broker import TLS_STORES
from broker_cy.core.classes import NamedTuple
from broker_cy.core.config_def.types import ConfigError
from broker_cy.security.tls.stores import ClientSettings, Identity, StoreError, StoreSettings, check_exchange, files_of

if TYPE_CHECKING:
    from broker_cy.config import BrokerConfig
    from broker_cy.config.tls import TlsListener as ServerSettings
    from broker_cy.config.tls import TlsSettings
    from broker_cy.core.openssl import TlsContext
    from broker_cy.network import tls_listener
    from broker_cy.network.certificate_reports import CertificateReports
    from broker_cy.network.tls_listener import TlsListener
    from broker_cy.security.tls.certificate import Certificate

STEPS_MAX: Final = 1_000

Versions = tuple[tuple[int, ...] | None, ...]


class _Loaded(NamedTuple):
    context: ssl.SSLContext
    identity: Identity | None


class OutgoingTls:
    """How this node connects to the listener `name` of other nodes. Raises ConfigError if its stores cannot be used."""

    def __init__(self, name: str, settings: ClientSettings) -> None:
        self.name = name
        self.settings = settings
        self.loaded = self._load(settings)

    def __call__(self) -> ssl.SSLContext:
        """For a new connection."""
        return self.loaded.context

    def compatible(self, settings: ClientSettings) -> _Loaded:
        """Load other stores, if they may replace the current ones. Raises ConfigError."""
        found = self._load(settings)
        try:
            check_exchange(
                (self.settings.stores, self.loaded.identity),
                (settings.stores, found.identity),
                allows_dn_changes=settings.allows_dn_changes,
                allows_san_changes=settings.allows_san_changes,
            )
        except StoreError as error:
            raise self._wrong(error) from None
        return found

    def use(self, settings: ClientSettings, found: _Loaded) -> None:
        self.settings, self.loaded = settings, found

    def _load(self, settings: ClientSettings) -> _Loaded:
        try:
            return _Loaded(*context_and_identity(settings, read_file))
        except StoreError as error:
            raise self._wrong(error) from None

    def _wrong(self, error: StoreError) -> ConfigError:
        return ConfigError(f"listener {self.name}, to other nodes: {error}")


class _Halves(NamedTuple):
    """The current or new halves of a listener; None if this node has no such half."""

    server: ServerSettings | None
    client: ClientSettings | None


class NodeTls:
    """`listeners` are put there by `add`. Raises ConfigError if stores for connections to others cannot be used."""

    def __init__(self, config: BrokerConfig, reports: CertificateReports) -> None:
        self._reports = reports
        self.listeners: dict[str, TlsListener] = {}
        self.outgoing = {name: OutgoingTls(name, settings) for name, settings in config.tls.outgoing.items()}
        self._inter_broker = config.network.inter_broker
        self._versions = {name: _versions(_Halves(None, each.settings)) for name, each in self.outgoing.items()}
        config.on_change(lambda _: self.apply(config.tls), TLS_STORES)

    def add(self, listener: TlsListener) -> None:
        """Raises ConfigError if its two halves do not accept each other."""
        name = listener.name
        if (client := self._verified(name)) is not None:
            _verify(name, client(), listener.context)
        self.listeners[name] = listener
        self._versions[name] = _versions(self._halves(name))

    def check(self, settings: TlsSettings, *, validate_only: bool = False) -> None:
        """Check whether the stores in these settings may replace the current ones; a refusal is reported unless
        `validate_only`. Raises ConfigError.
        """
        for name, wanted in self._changed(settings):
            try:
                self._compatible(name, wanted)
            except ConfigError as error:
                if not validate_only:
                    self._reports.refused(name, str(error), self._in_use(name))
                raise

    def apply(self, settings: TlsSettings) -> None:
        """Use the stores in these settings; unacceptable stores are reported, and not used."""
        for name, wanted in self._changed(settings):
            try:
                self._exchange(name, wanted)
            except ConfigError as error:
                self._reports.refused(name, str(error), self._in_use(name))

    def look(self) -> None:
        """Use the contents of changed files; an unacceptable store is reported once for each change. Report
        certificates that expire soon.
        """
        for name, before in list(self._versions.items()):
            halves = self._halves(name)
            versions = _versions(halves)
            if versions == before:
                continue
            self._versions[name] = versions
            try:
                self._exchange(name, halves)
            except ConfigError as error:
                self._reports.refused(name, str(error), self._in_use(name))
        for name in self._versions:
            if (certificate := self._in_use(name)) is not None:
                self._reports.look(name, certificate)

    def _in_use(self, name: str) -> Certificate | None:
        """The certificate that this node shows at the listener; None if it only connects there, without one."""
        half = self.listeners.get(name)
        identity = half.identity if half is not None else self.outgoing[name].loaded.identity
        return None if identity is None else identity.certificate

    def _halves(self, name: str) -> _Halves:
        server, client = self.listeners.get(name), self.outgoing.get(name)
        return _Halves(None if server is None else server.settings, None if client is None else client.settings)

    def _changed(self, settings: TlsSettings) -> list[tuple[str, _Halves]]:
        """The listeners whose settings differ in `settings`, with the new ones."""
        found = []
        for name in self._versions:
            wanted = _Halves(
                settings.listeners.get(name) if name in self.listeners else None, settings.outgoing.get(name)
            )
            if wanted != self._halves(name):
                found.append((name, wanted))
        return found

    def _exchange(self, name: str, wanted: _Halves) -> None:
        """Raises ConfigError, and nothing changes."""
        versions, before = _versions(wanted), self._in_use(name)
        served, connects = self._compatible(name, wanted)
        if wanted.server is not None and served is not None:
            self.listeners[name].use(wanted.server, served)
        if wanted.client is not None and connects is not None:
            self.outgoing[name].use(wanted.client, connects)
        self._versions[name] = versions
        self._reports.exchanged(name, before, self._in_use(name))

    def _compatible(self, name: str, wanted: _Halves) -> tuple[tls_listener.Loaded | None, _Loaded | None]:
        """Load the new halves. Raises ConfigError."""
        server = self.listeners.get(name)
        served = server.compatible(wanted.server) if server is not None and wanted.server is not None else None
        client = self.outgoing.get(name)
        connects = client.compatible(wanted.client) if client is not None and wanted.client is not None else None
        if (old := self._verified(name)) is not None and server is not None and served is not None:
            assert connects is not None  # the settings of both are of one listener
            _verify(name, connects.context, server.context)
            _verify(name, old(), served.context)
        return served, connects

    def _verified(self, name: str) -> OutgoingTls | None:
        """The client's half of the listener, if it has to accept the other one."""
        return self.outgoing.get(name) if name == self._inter_broker else None


def _versions(halves: _Halves) -> Versions:
    """A value that changes when one of their files is written or replaced."""
    stores: set[StoreSettings] = {half.stores for half in halves if half is not None}
    files = sorted({file for each in stores for file in files_of(each)})
    return tuple(file_version(file) for file in files)


def _verify(name: str, client: ssl.SSLContext, server: TlsContext) -> None:
    """Raises ConfigError if the two cannot connect."""
    if (reason := _handshake(client, server)) is not None:
        raise ConfigError(
            f"listener {name}: brokers could not connect to each other with these key stores and trust stores, or with "
            f"those of now: {reason}"
        )


def _handshake(client: ssl.SSLContext, server: TlsContext) -> str | None:
    """Why it fails; None if it does not."""
    # Imported here, because a node may connect to others by TLS and serve none, without it.
    from broker_cy.core.openssl import FAILED, SHAKEN, TlsSession

    ours, theirs = socket.socketpair()
    with theirs:
        ours.setblocking(False)
        theirs.setblocking(False)
        session = TlsSession(server, theirs.fileno())
        is_served = is_connected = False
        with _connection(client, ours) as connection:
            for _ in range(STEPS_MAX):
                if not is_connected:
                    try:
                        connection.do_handshake()
                        is_connected = True
                    except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                        pass
                    except OSError as error:
                        return f"the client: {error}"
                if not is_served:
                    outcome = session.shake()
                    if outcome == FAILED:
                        return f"the server: {session.failure}"
                    is_served = outcome == SHAKEN
                if is_served and is_connected:
                    return None
    return "the handshake does not end"


def _connection(client: ssl.SSLContext, ours: socket.socket) -> ssl.SSLSocket:
    """One that does not check the name in the other's certificate: it goes nowhere."""
    checks_host = client.check_hostname
    client.check_hostname = False
    try:
        return client.wrap_socket(ours, do_handshake_on_connect=False)
    finally:
        client.check_hostname = checks_host
