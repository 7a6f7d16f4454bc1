"""A listener with TLS, its connections and a loop in a thread; needs a build with TLS."""

from __future__ import annotations

import asyncio
import socket
import ssl
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from broker_cy.config.tls import TlsListener as Settings
from broker_cy.config.tls import TlsSettings
from broker_cy.core.clock import MACHINE_CLOCK, ManualClock
from broker_cy.events.denials import Denials
from broker_cy.metrics.events import Event, LoginFailed
from broker_cy.metrics.login_counts import TlsCounts
from broker_cy.network.certificate_reports import CertificateReports
from broker_cy.network.handshakes import Handshakes
from broker_cy.network.node_tls import NodeTls
from broker_cy.network.tls_listener import TlsListener
from broker_cy.security.tls.stores import StoreSettings
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey
from tests.broker_cy.connections.harness import (
    DEADLINE_S,
    CoreHarness,
    RawClient,
)
from tests.support.certificates import Authority, Holder

HEARTBEAT_VERSION = 3


class TlsHarness(CoreHarness):
    """Its listener has TLS; a Heartbeat waits until `released` is set. `client` connects with TLS."""

    def __init__(self, directory: Path, timeout_s: float = DEADLINE_S, **settings: Any) -> None:
        self.released: asyncio.Event | None = None
        super().__init__({ApiKey.HEARTBEAT: self._heartbeat})
        self.files = directory
        self.authority = Authority()
        self.handshake_pool = ThreadPoolExecutor(2)
        self.handshakes = Handshakes(self.loop, lambda: self.handshake_pool, timeout_s, 2)
        self.handshakes.timeout_s = timeout_s
        self.counts = TlsCounts()
        stores = StoreSettings(
            keystore_type="PEM",
            keystore_location=str(self.authority.issue("broker").write_pem(directory / "broker.pem")),
            truststore_type="PEM",
            truststore_certificates=self.authority.pem,
        )
        found = Settings("TLSv1.2", "TLSv1.3", None, None, False, False, "DEFAULT", stores)._replace(**settings)
        self.listener.tls = TlsListener("PLAINTEXT", found, self.handshakes, self.counts)
        self.refused: list[Any] = []
        self.core.broker.denials = Denials(MACHINE_CLOCK, self.loop, self.refused.append)
        config: Any = SimpleNamespace(
            tls=self.all_with(found), network=SimpleNamespace(inter_broker="INNER"), on_change=lambda *_: None
        )
        self.events: list[Event] = []
        self.node = NodeTls(config, CertificateReports(ManualClock(), self.events.append))
        self.node.add(self.listener.tls)

    @staticmethod
    def all_with(settings: Settings) -> TlsSettings:
        """The settings of a node that has one listener with TLS."""
        return TlsSettings({"PLAINTEXT": settings}, None, None, frozenset({"PLAINTEXT"}), ("", ""))

    async def _heartbeat(self, _context: Any, _request: Any) -> Any:
        if self.released is not None:
            await self.released.wait()
        return messages.HeartbeatResponse()

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.listener.port), DEADLINE_S)

    def client(self, newest: str = "TLSv1.3", holder: Holder | None = None) -> RawClient:
        context = ssl.create_default_context(cadata=self.authority.pem)
        context.maximum_version = ssl.TLSVersion.TLSv1_3 if newest == "TLSv1.3" else ssl.TLSVersion.TLSv1_2
        if holder is not None:
            context.load_cert_chain(holder.write_pem(self.files / "client.pem"))
        client = RawClient("127.0.0.1", self.listener.port)
        client.socket = context.wrap_socket(client.socket, server_hostname="localhost")
        return client

    def refusals(self) -> dict[str, int]:
        """The events of handshakes so far: how often each reason."""
        self.on_loop(self.core.broker.denials.flush)
        found: dict[str, int] = {}
        for each in self.refused:
            assert isinstance(each, LoginFailed)
            assert (each.listener, each.host, each.mechanism, each.user) == ("PLAINTEXT", "127.0.0.1", "TLS", "")
            found[each.reason] = found.get(each.reason, 0) + each.count
        return found

    def plain_client(self) -> RawClient:
        return super().client()

    def close(self) -> None:
        self.on_loop(self.handshakes.close)
        self.on_loop(self.core.broker.denials.stop)
        self.handshake_pool.shutdown()
        super().close()
