"""The limits on connections of the listeners for clients, as the settings have them by now (see listener)."""

from __future__ import annotations

import resource
from collections.abc import Callable
from typing import TYPE_CHECKING

from broker_cy.connections.listener import Admission, Ended, Listener
from broker_cy.core.supervision import keep_running
from broker_cy.quotas.connections import ConnectionRates

if TYPE_CHECKING:
    import asyncio

    from broker_cy.config import BrokerConfig
    from broker_cy.connections.connection import Connection
    from broker_cy.core.clock import Clock
    from broker_cy.network.ip_overrides import IpOverrides

# Descriptors that neither connections nor open segments may take: listeners, indexes, checkpoints, workers.
DESCRIPTORS_RESERVED = 128


class ConnectionLimits:
    """`apply` takes the settings, `follow` also their changes. `listeners` are those that accept again after a
    connection has ended.
    """

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        ip_overrides: IpOverrides,
        listeners: list[Listener],
        open_files_max: Callable[[], int],
        is_stopping: Callable[[], bool],
    ) -> None:
        """`open_files_max` returns how many files of logs may be open."""
        self.rates = ConnectionRates(config["quota.window.num"], config["quota.window.size.seconds"] * 1000)
        self.admission = Admission(0, 0, {}, self.rates)
        if len(config.listeners) > 1:
            self.admission.exempt = config.network.inter_broker
        self._config = config
        self._clock = clock
        self._loop = loop
        self._ip_overrides = ip_overrides
        self._listeners = listeners
        self._open_files_max = open_files_max
        self._is_stopping = is_stopping
        self._resolving: asyncio.Task[None] | None = None  # the hosts of a changed setting

    def apply(self) -> None:
        """Apply the limits; descriptors for logs and other files are always reserved."""
        admission, config = self.admission, self._config
        descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        room = descriptors - self._open_files_max() - DESCRIPTORS_RESERVED
        admission.descriptors_max = max(1, room)
        admission.connections_max = min(config["max.connections"], admission.descriptors_max)
        names = [each.name for each in config.listeners]
        admission.listener_max = {name: config.of_listener("max.connections", name) for name in names}
        rate = "max.connection.creation.rate"
        rates = {name: config.of_listener(rate, name) for name in names}
        self.rates.limit(config[rate], rates, int(self._clock.monotonic() * 1000))
        admission.per_ip_max = config["max.connections.per.ip"]
        admission.per_ip_overrides = self._ip_overrides.limits

    def follow(self) -> None:
        """Apply the limits again when a setting changes."""
        names = ("max.connections", "max.connections.per.ip", "max.connection.creation.rate")
        self._config.on_change(lambda _: self._changed(), *names)
        self._config.on_change(lambda _: self._resolve(), "max.connections.per.ip.overrides")

    def closed(self, connection: Connection | Ended) -> None:
        """A connection has ended."""
        self.admission.leave(connection.client_host, connection.listener)
        self._resume()

    def stop(self) -> None:
        """Follow the settings no longer."""
        if self._resolving is not None:
            self._resolving.cancel()

    def _changed(self) -> None:
        self.apply()
        self._resume()

    def _resume(self) -> None:
        if not self._is_stopping():
            for listener in self._listeners:
                if self.admission.has_room(listener.name):
                    listener.start()

    def _resolve(self) -> None:
        async def resolve() -> None:
            await self._ip_overrides.follow()
            self._changed()

        self.stop()  # it would resolve the same setting
        self._resolving = keep_running(self._loop, resolve, "limits of connections by address")
