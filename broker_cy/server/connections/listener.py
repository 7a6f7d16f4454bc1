"""Listeners: accept, admit, and hand over to connections.

Bounds: `max.connections` over all listeners, or fewer if the process may not open as many descriptors (beyond it
nothing is accepted until a connection ends: new peers wait in the kernel's backlog); `max.connections.per.ip` with
overrides (beyond it a new connection is closed at once, as in Kafka); and ACCEPTS_PER_TURN accepts in one turn of the
loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from broker_cy.core.logs import facts
from broker_cy.server.connections.answers import ServerCore
from broker_cy.server.connections.connection import Connection

if TYPE_CHECKING:
    from collections.abc import Mapping

    from broker_cy.server.connections.login import Logins
    from broker_cy.server.connections.tls_listener import TlsListener
    from broker_cy.server.connections.tls_transport import TlsTransport
    from broker_cy.server.seams import Acceptor, Incoming

LOGGER = logging.getLogger("broker_cy.server.connections.listener")

ACCEPTS_PER_TURN = 64
# Pause of accepting after the process ran out of descriptors.
DESCRIPTOR_PAUSE_S = 0.1


class Ended(NamedTuple):
    """A client that was admitted and never became a connection."""

    listener: str
    client_host: str


class Admission:
    """Counts connections against `max.connections` and `max.connections.per.ip`."""

    def __init__(self, connections_max: int, per_ip_max: int, per_ip_overrides: Mapping[str, int]) -> None:
        self.connections_max = connections_max
        self.per_ip_max = per_ip_max
        self.per_ip_overrides = dict(per_ip_overrides)
        self.by_ip: Counter[str] = Counter()
        self.total = 0

    @property
    def full(self) -> bool:
        return self.total >= self.connections_max

    def limit_of(self, host: str) -> int:
        return self.per_ip_overrides.get(host, self.per_ip_max)

    def admit(self, host: str) -> bool:
        """Count one connection of `host`. False if the host has reached its limit."""
        if self.by_ip[host] >= self.limit_of(host):
            return False
        self.by_ip[host] += 1
        self.total += 1
        return True

    def leave(self, host: str) -> None:
        self.total -= 1
        self.by_ip[host] -= 1
        if self.by_ip[host] <= 0:
            del self.by_ip[host]


class Listener:
    """One named listener: accepts clients and creates a `Connection` for each one that is admitted."""

    def __init__(
        self,
        name: str,
        acceptor: Acceptor,
        core: ServerCore,
        admission: Admission,
        logins: Logins | None = None,
        tls: TlsListener | None = None,
    ) -> None:
        """`logins`: with SASL, what clients do before they are served; `tls`: with TLS, before that."""
        self.name = name
        self.acceptor = acceptor
        self.core = core
        self.admission = admission
        self.logins = logins
        self.tls = tls
        self.host = acceptor.host
        self.port = acceptor.port
        self.local = f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"
        self.loop: asyncio.AbstractEventLoop = core.loop
        self.accepting = False

    def start(self) -> None:
        """Accept from now on."""
        if not self.accepting:
            self.accepting = True
            self.loop.add_reader(self.acceptor.fd, self._on_ready)

    def pause(self) -> None:
        """Accept nothing until `start`; peers wait in the kernel's backlog."""
        if self.accepting:
            self.accepting = False
            self.loop.remove_reader(self.acceptor.fd)

    def close(self) -> None:
        self.pause()
        self.acceptor.close()

    def _on_ready(self) -> None:
        for _ in range(ACCEPTS_PER_TURN):
            if self.admission.full:
                self.core.log_events.connections_full(self.name, self.admission.total)
                self.pause()
                return
            try:
                incoming = self.acceptor.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._out_of_descriptors(error)
                return
            self._admit(incoming)

    def _out_of_descriptors(self, error: OSError) -> None:
        LOGGER.error(
            "could not accept a connection; will retry",
            extra=facts(listener=self.name, reason=str(error), retry_s=DESCRIPTOR_PAUSE_S),
        )
        self.pause()
        self.loop.call_later(DESCRIPTOR_PAUSE_S, self._resume)

    def _resume(self) -> None:
        if self.acceptor.fd >= 0 and not self.core.stopping:
            self.start()

    def _admit(self, incoming: Incoming) -> None:
        host, port = incoming.host, incoming.port
        if not self.admission.admit(host):
            self.core.log_events.connection_refused(self.name, host, port, self.admission.limit_of(host))
            incoming.refuse()
            return
        if self.tls is not None:
            self._shake_hands(self.tls, incoming)
            return
        Connection(self.core, incoming.admit(), self.name, host, port, self.local, self.logins)

    def _shake_hands(self, tls: TlsListener, incoming: Incoming) -> None:
        """The connection begins with the end of the handshake; it is counted from now on."""
        host, port = incoming.host, incoming.port
        socket = incoming.admit()

        def done(transport: TlsTransport, principal: str | None) -> None:
            if self.core.stopping:
                transport.close_now()
                self.core.left(Ended(self.name, host))
                return
            connection = Connection(self.core, transport, self.name, host, port, self.local, self.logins)
            if principal is not None:
                connection.identify(principal)
            transport.attach(connection.on_readable)

        def failed(reason: str) -> None:
            self.core.log_events.handshake_failed(self.name, host, port, reason)
            self.core.left(Ended(self.name, host))

        tls.begin(socket, done, failed)
