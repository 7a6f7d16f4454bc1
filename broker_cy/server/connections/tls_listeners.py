"""The TLS of the listeners of a node; nothing of it is loaded where no listener has it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from broker_cy.config.types import ConfigError

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from broker_cy.server.broker import Broker
    from broker_cy.server.connections.handshakes import Handshakes
    from broker_cy.server.connections.tls_listener import TlsListener

HANDSHAKE_WORKERS = 2
WITHOUT = (
    "this build has no TLS: there was no OpenSSL when it was built; install cargo and perl, or the headers of OpenSSL "
    ">= 3.0 (Debian: apt-get install libssl-dev), and build again"
)


class TlsListeners:
    """By the name of the listener. Handshakes of all of them share their workers."""

    def __init__(self, broker: Broker, make_pool: Callable[[], Executor], names: Iterable[str]) -> None:
        """`names` are those of the listeners. Raises ConfigError, also if this build has no TLS."""
        self._handshakes: Handshakes | None = None
        self.listeners: Mapping[str, TlsListener] = {}
        listeners = broker.config.tls.listeners
        found = {name: listeners[name] for name in names if name in listeners}
        if not found:
            return
        try:
            from broker_cy.server.connections.handshakes import Handshakes
            from broker_cy.server.connections.tls_listener import TlsListener
        except ModuleNotFoundError as error:
            if not (error.name or "").startswith("broker_cy."):
                raise
            raise ConfigError(f"listener {next(iter(found))} uses TLS, and {WITHOUT}") from None
        timeout_s = broker.config["brokercy.authentication.timeout.ms"] / 1000
        handshakes = self._handshakes = Handshakes(broker.loop, make_pool, timeout_s)
        self.listeners = {
            name: TlsListener(name, settings, handshakes, broker.tls_counts) for name, settings in found.items()
        }

    def close(self) -> None:
        """End the handshakes, and their workers."""
        if self._handshakes is not None:
            self._handshakes.close()
