"""Listeners: accept, admit, and hand over to connections.

Bounds: `max.connections` over all listeners and of each of them, or fewer if the process may not open as many
descriptors (beyond it no connection is accepted until one ends: new peers wait in the kernel's backlog);
`max.connections.per.ip` with overrides (beyond it a new connection is closed immediately, as in Kafka); the rate of new
connections (`quotas.connections`); and ACCEPTS_PER_TURN accepts in one turn of the loop.

As in Kafka, the listener between brokers, if it is not the only one, is exempt from the shared limit: its connections
replace those of other listeners, so that clients cannot keep the brokers from each other.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import TYPE_CHECKING

from broker_cy.connections.answers import ServerCore
from broker_cy.connections.connection import Connection
from broker_cy.core.classes import NamedTuple
from broker_cy.core.logs import facts
from broker_cy.quotas.connections import AT_ONCE, Arrival

if TYPE_CHECKING:
    from collections.abc import Mapping

    from broker_cy.connections.login import Logins
    from broker_cy.network.handshakes import Failure
    from broker_cy.network.seams import Acceptor, Incoming
    from broker_cy.network.tls_listener import TlsListener
    from broker_cy.network.tls_transport import TlsTransport
    from broker_cy.quotas.connections import ConnectionRates

LOGGER = logging.getLogger("broker_cy.server.connections.listener")

ACCEPTS_PER_TURN = 64
# Connections beyond the rate of their address that wait for their end; further ones are closed immediately.
DELAYED_MAX = 1000
# Pause of accepting after the process ran out of descriptors.
DESCRIPTOR_PAUSE_S = 0.1


class Ended(NamedTuple):
    """A client that was admitted and never became a connection."""

    listener: str
    client_host: str


class Admission:
    """Counts connections against `max.connections` and `max.connections.per.ip`, and their rate (`rates`; None: no
    limit of the rate).
    """

    def __init__(
        self,
        connections_max: int,
        per_ip_max: int,
        per_ip_overrides: Mapping[str, int],
        rates: ConnectionRates | None = None,
    ) -> None:
        self.connections_max = connections_max
        # The number of descriptors that the process can open; connections_max is not larger.
        self.descriptors_max = 2**31
        # max.connections of single listeners, and the listener that is exempt from that of all.
        self.listener_max: Mapping[str, int] = {}
        self.exempt = ""
        self.rates = rates
        self.by_listener: Counter[str] = Counter()
        self.delayed = 0
        self.per_ip_max = per_ip_max
        self.per_ip_overrides = dict(per_ip_overrides)
        self.by_ip: Counter[str] = Counter()
        self.total = 0

    def has_room(self, listener: str) -> bool:
        """Whether the listener may accept."""
        if self.by_listener[listener] >= self.listener_max.get(listener, self.descriptors_max):
            return False
        return self.total < (self.descriptors_max if listener == self.exempt else self.connections_max)

    @property
    def is_crowded(self) -> bool:
        """Whether connections of the exempt listener have taken the place of others."""
        return self.total > self.connections_max

    def limit_of(self, host: str) -> int:
        return self.per_ip_overrides.get(host, self.per_ip_max)

    def arrive(self, listener: str, host: str, now_ms: int) -> Arrival:
        """Whether a connection has come too fast."""
        if self.rates is None or not self.rates.is_on:
            return AT_ONCE
        return self.rates.arrive(listener, host, now_ms, is_exempt=listener == self.exempt)

    def admit(self, host: str, listener: str = "") -> bool:
        """Count one connection of `host`. False if the host has reached its limit."""
        if self.by_ip[host] >= self.limit_of(host):
            return False
        self.by_ip[host] += 1
        self.total += 1
        self.by_listener[listener] += 1
        return True

    def leave(self, host: str, listener: str = "") -> None:
        self.total -= 1
        self.by_listener[listener] -= 1
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
        """`logins`: with SASL, the logins of clients before they are served; `tls`: with TLS, before the logins."""
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
        # While it accepts nothing because connections came too fast.
        self._rate_timer: asyncio.TimerHandle | None = None
        self._delayed: dict[Incoming, asyncio.TimerHandle] = {}

    def start(self) -> None:
        """Accept from now on, or when a pause is over that the rate needs."""
        if not self.accepting and self._rate_timer is None:
            self.accepting = True
            self.loop.add_reader(self.acceptor.fd, self._on_ready)

    def pause(self) -> None:
        """Accept nothing until `start`; peers wait in the kernel's backlog."""
        if self.accepting:
            self.accepting = False
            self.loop.remove_reader(self.acceptor.fd)

    def close(self) -> None:
        self.pause()
        if self._rate_timer is not None:
            self._rate_timer.cancel()
        for incoming, timer in list(self._delayed.items()):
            timer.cancel()
            self._end(incoming)
        self.acceptor.close()

    def _pause_for(self, ms: int) -> None:
        self.pause()
        self._rate_timer = self.loop.call_later(ms / 1000, self._rate_is_over)

    def _rate_is_over(self) -> None:
        self._rate_timer = None
        self._resume()

    def _end_later(self, incoming: Incoming, ms: int) -> None:
        """Close a connection beyond the rate of its address; its peer, which may try again, waits meanwhile."""
        if self.admission.delayed >= DELAYED_MAX:
            incoming.refuse()
            return
        self.admission.delayed += 1
        self._delayed[incoming] = self.loop.call_later(ms / 1000, self._end, incoming)

    def _end(self, incoming: Incoming) -> None:
        del self._delayed[incoming]
        self.admission.delayed -= 1
        incoming.refuse()

    def _on_ready(self) -> None:
        for _ in range(ACCEPTS_PER_TURN):
            if not self.admission.has_room(self.name):
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
            arrival = self.admission.arrive(self.name, incoming.host, int(self.core.clock.monotonic() * 1000))
            if arrival.close_ms:
                self._end_later(incoming, arrival.close_ms)
            else:
                self._admit(incoming)
            if arrival.pause_ms:
                self._pause_for(arrival.pause_ms)
                return

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
        if not self.admission.admit(host, self.name):
            self.core.log_events.connection_refused(self.name, host, port, self.admission.limit_of(host))
            incoming.refuse()
            return
        if self.tls is not None:
            self._shake_hands(self.tls, incoming)
            return
        Connection(self.core, incoming.admit(), self.name, host, port, self.local, self.logins)
        if self.admission.is_crowded:
            self.core.close_least_active(self.name)

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
            if self.admission.is_crowded:
                self.core.close_least_active(self.name)

        def failed(failure: Failure) -> None:
            self.core.log_events.handshake_failed(self.name, host, port, failure.reason)
            if failure.is_refusal:
                self.core.broker.denials.handshake_failed(self.name, host, failure.reason)
            self.core.left(Ended(self.name, host))

        tls.begin(socket, done, failed)
