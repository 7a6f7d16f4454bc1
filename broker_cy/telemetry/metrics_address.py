"""brokercy.metrics.listener: where metrics are served."""

from __future__ import annotations

from typing import NamedTuple

from broker_cy.network.sockets import ListenError

PORT_MAX = 65_535


class MetricsAddress(NamedTuple):
    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> MetricsAddress:
        """Raises ListenError."""
        host, separator, port = text.rpartition(":")
        if not separator or not port.isdecimal() or int(port) > PORT_MAX:
            raise ListenError(f"brokercy.metrics.listener: {text!r} is not HOST:PORT with a port of 0 to {PORT_MAX}")
        return cls(host.strip("[]"), int(port))
