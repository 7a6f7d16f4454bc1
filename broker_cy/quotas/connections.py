"""How fast connections begin (KIP-612): the rate of the broker, of each listener and of each address, as Kafka's
ConnectionQuotas counts them.

A listener beyond its rate, or that of the broker, stops accepting until the rate is the limit again, one window at
most. A connection beyond the rate of its address is closed, after the same time, and does not count. The listener
between brokers, if it is not the only one, is exempt from the rate of the broker.

Bound: `entities.ENTITIES_MAX` addresses.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any, Final

from broker_cy.core.classes import NamedTuple
from broker_cy.metadata.quotas import CLIENT_ID
from broker_cy.quotas.entities import Entities
from broker_cy.quotas.rate import Rate
from broker_cy.wire import messages

UNLIMITED: Final = 2**31 - 1


class Arrival(NamedTuple):
    """The decision on a new connection: the listener accepts no connection for `pause_ms`; the new one is closed after
    `close_ms` unless that is 0.
    """

    pause_ms: int
    close_ms: int


AT_ONCE: Final = Arrival(0, 0)


class ConnectionRates:
    """Times are those of a monotonic clock, in ms."""

    def __init__(self, windows: int, window_ms: int) -> None:
        self._windows = windows
        self._window_ms = window_ms
        self._broker: Rate | None = None
        self._listeners: dict[str, Rate] = {}
        # Addresses take the place of client ids.
        self.addresses: Entities[Rate] = Entities(self._rate)

    def _rate(self, tags: tuple[str, str], limit: float, now_ms: int) -> Rate:
        return Rate(tags, limit, self._windows, self._window_ms, now_ms, self._window_ms)

    @property
    def is_on(self) -> bool:
        return self._broker is not None or bool(self._listeners) or bool(self.addresses.limits)

    def limit(self, broker: int, listeners: Mapping[str, int], now_ms: int) -> None:
        """Connections a second of the broker, and of each listener; UNLIMITED for no limit."""
        self._broker = self._limited(self._broker, broker, now_ms)
        found = {name: self._limited(self._listeners.get(name), limit, now_ms) for name, limit in listeners.items()}
        self._listeners = {name: rate for name, rate in found.items() if rate is not None}

    def _limited(self, rate: Rate | None, limit: int, now_ms: int) -> Rate | None:
        if limit >= UNLIMITED:
            return None
        if rate is None:
            rate = self._rate(("", ""), limit, now_ms)
        rate.limit = limit
        return rate

    def limit_address(self, address: str | None, limit: float | None) -> None:
        """The quota of an address, None: the default; no quota for the limit None. Raises ValueError unless it is an
        address.
        """
        name = None if address is None else str(ipaddress.ip_address(address))
        part: Any = messages.ClientQuotaRecord.EntityData(entity_type=CLIENT_ID, entity_name=name)
        self.addresses.limits.set([part], None if limit is None else float(int(limit)))
        self.addresses.renew()

    def arrive(self, listener: str, address: str, now_ms: int, *, is_exempt: bool = False) -> Arrival:
        """A connection is accepted. `is_exempt`: the listener is the one between brokers."""
        shared = [self._listeners.get(listener)]
        if not is_exempt:
            shared.append(self._broker)
        counted = [rate for rate in shared if rate is not None]
        pause_ms = max([0, *(rate.charge(1, now_ms) for rate in counted)])
        own = self.addresses.of("", address, now_ms)
        close_ms = 0 if own is None else own.charge(1, now_ms)
        if own is not None and close_ms:
            own.note_wait(close_ms)
            for rate in (own, *counted):
                rate.record(-1, now_ms)
        return Arrival(pause_ms, close_ms)

    def expire(self, now_ms: int) -> None:
        """Forget addresses that have not connected for an hour."""
        self.addresses.expire(now_ms)
