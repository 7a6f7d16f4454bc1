"""The TLS of the listeners of a node; its modules are loaded only if a listener has TLS."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from broker_cy.core.config_def.types import ConfigError
from broker_cy.core.tls_version import WITHOUT_TLS

if TYPE_CHECKING:
    import asyncio
    from concurrent.futures import Executor

    from broker_cy.config import BrokerConfig
    from broker_cy.metrics.login_counts import TlsCounts
    from broker_cy.network.handshakes import Handshakes
    from broker_cy.network.node_tls import NodeTls
    from broker_cy.network.tls_listener import TlsListener

HANDSHAKE_WORKERS = 2
# How often files of certificates are looked at.
LOOK_S = 5.0


class TlsListeners:
    """By the name of the listener. Handshakes of all of them share their workers."""

    def __init__(
        self,
        config: BrokerConfig,
        loop: asyncio.AbstractEventLoop,
        counts: TlsCounts,
        make_pool: Callable[[], Executor],
        names: Iterable[str],
        node: NodeTls | None,
    ) -> None:
        """`names` are those of the listeners; `node`, the stores of all of them, is None if none has TLS. Raises
        ConfigError, also if this build has no TLS.
        """
        self._handshakes: Handshakes | None = None
        self.listeners: Mapping[str, TlsListener] = {}
        listeners = config.tls.listeners
        found = {name: listeners[name] for name in names if name in listeners}
        if not found:
            return
        try:
            from broker_cy.network.handshakes import Handshakes
            from broker_cy.network.tls_listener import TlsListener
        except ModuleNotFoundError as error:
            if not (error.name or "").startswith("broker_cy."):
                raise
            raise ConfigError(f"listener {next(iter(found))} uses TLS, and {WITHOUT_TLS}") from None
        timeout_s = config["brokercy.authentication.timeout.ms"] / 1000
        handshakes = self._handshakes = Handshakes(loop, make_pool, timeout_s, HANDSHAKE_WORKERS)
        self.listeners = {name: TlsListener(name, settings, handshakes, counts) for name, settings in found.items()}
        assert node is not None
        for each in self.listeners.values():
            node.add(each)

    def close(self) -> None:
        """End the handshakes, and their workers."""
        if self._handshakes is not None:
            self._handshakes.close()
