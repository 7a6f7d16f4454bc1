"""The listeners of the controller (controller.listener.names), for other nodes of the cluster. Their APIs differ from
those for clients, so they have a dispatch table of their own.

Their connections are counted against `max.connections`, but separately from those of clients: clients that use up their
limit must not keep the nodes of the quorum from each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker_cy.broker.registry import ListenerKind, declared
from broker_cy.connections.answers import ServerCore
from broker_cy.connections.listener import Admission, Ended, Listener
from broker_cy.connections.login_listeners import logins_of
from broker_cy.handlers import serve_handlers
from broker_cy.network.sockets import Buffers
from broker_cy.network.tls_listeners import HANDSHAKE_WORKERS, TlsListeners
from broker_cy.quorum.voters import Endpoint
from broker_cy.replica.partition_table import PartitionTable

if TYPE_CHECKING:
    from broker_cy.broker.broker import Broker
    from broker_cy.connections.connection import Connection
    from broker_cy.network.seams import Acceptor, Seams

_ALL_INTERFACES = frozenset({"", "0.0.0.0", "::", "[::]"})


class ControllerListeners:
    """`bind`, `start` and `stop` in this order. There may be no listener: a node that is alone needs none."""

    def __init__(self, broker: Broker, seams: Seams) -> None:
        self.listeners: list[Listener] = []
        self._broker = broker
        self._seams = seams
        self._acceptors: list[tuple[str, Acceptor]] = []
        self._core: ServerCore | None = None
        self._admission = Admission(0, 0, {})

    async def bind(self) -> None:
        """Raises ListenError, RegistrationRefused, ConfigError."""
        config = self._broker.config
        names = [listener.name for listener in config.network.controller_listeners]
        self._tls = TlsListeners(
            config,
            self._seams.loop,
            self._broker.tls_counts,
            lambda: self._seams.workers.pool("controller-handshake", HANDSHAKE_WORKERS),
            names,
            self._broker.tls,
        )
        if config.quorum_voters:
            # Imported here, because a node that is alone starts sooner without it.
            from broker_cy.control.membership.same_id import refuse_same_id

            await refuse_same_id(config, self._broker.to_controllers)
        buffers = Buffers(config["socket.send.buffer.bytes"], config["socket.receive.buffer.bytes"])
        for each in config.network.controller_listeners:
            acceptor = self._seams.network.listen(
                each.name, each.host, each.port, config["socket.listen.backlog.size"], buffers
            )
            self._acceptors.append((each.name, acceptor))

    def endpoints(self) -> tuple[Endpoint, ...]:
        """The advertised addresses, the preferred one first. Port 0 is replaced by the port that the system chose, and
        the address of all interfaces by this machine's name, because other nodes could not reach it.
        """
        config = self._broker.config
        ports = {name: acceptor.port for name, acceptor in self._acceptors}
        found = {
            each.name: Endpoint(
                each.name,
                self._seams.network.own_name() if each.host in _ALL_INTERFACES else each.host,
                each.port or ports[each.name],
            )
            for each in config.network.advertised_controllers
        }
        return tuple(found[name] for name in config.network.controller_names if name in found)

    @property
    def core(self) -> ServerCore:
        """The core of started listeners."""
        assert self._core is not None
        return self._core

    def start(self) -> None:
        """Accept from now on."""
        if not self._acceptors:
            return
        config = self._broker.config
        self._admission.connections_max = config["max.connections"]
        self._admission.per_ip_max = config["max.connections.per.ip"]
        self._admission.per_ip_overrides = self._broker.ip_overrides.limits
        served = serve_handlers(ListenerKind.CONTROLLER)
        self._core = ServerCore(
            self._seams.loop,
            self._seams.clock,
            self._broker.log_events,
            self._broker,
            PartitionTable(),
            served if self._broker.authorization is None else declared(served),
            config["socket.request.max.bytes"],
            self._on_closed,
        )
        self._broker.quotas.attach(self._core)
        logins, tls = logins_of(self._broker), self._tls.listeners
        for name, acceptor in self._acceptors:
            self.listeners.append(
                Listener(name, acceptor, self._core, self._admission, logins.get(name), tls.get(name))
            )
            self.listeners[-1].start()

    def stop(self) -> None:
        """Close everything; requests that wait are not answered."""
        for listener in self.listeners:
            listener.close()
        self._tls.close()
        if self._core is not None:
            self._core.stop_reading()
            for connection in list(self._core.connections):
                connection.close()

    def _on_closed(self, connection: Connection | Ended) -> None:
        self._admission.leave(connection.client_host, connection.listener)
        assert self._core is not None
        if not self._core.stopping:
            for listener in self.listeners:
                if self._admission.has_room(listener.name):
                    listener.start()
