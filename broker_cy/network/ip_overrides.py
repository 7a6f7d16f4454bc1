"""max.connections.per.ip.overrides: limits of addresses, and of hosts, which count for each of their addresses.

Kafka resolves the names as well, and takes the first address of each. They are resolved at the start and with each
change of the setting; an address that a host gets later is not noticed.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from broker_cy.config import ConfigError
from broker_cy.core.logs import facts

if TYPE_CHECKING:
    from broker_cy.config import BrokerConfig
    from broker_cy.network.seams import Network

LOGGER = logging.getLogger("broker_cy.server.connections")

NAME: Final = "max.connections.per.ip.overrides"
NO_NAME: Final = "each part of a name between dots has 1 to 63 characters"


class IpOverrides:
    """`limits` has the largest number of connections by address."""

    def __init__(self, config: BrokerConfig, network: Network) -> None:
        self.limits: dict[str, int] = {}
        self._config = config
        self._network = network

    async def resolve(self) -> None:
        """Take over the setting. Raises ConfigError for hosts without an address."""
        limits: dict[str, int] = {}
        wrong = []
        wanted = self._config.max_connections_per_ip_overrides
        for host, limit in wanted.items():
            try:
                limits |= dict.fromkeys(await self._network.addresses(host), limit)
            except OSError as error:
                wrong.append(f"{host} ({error.strerror or error})")
            except UnicodeError:  # the resolver's, for an invalid name
                wrong.append(f"{host} ({NO_NAME})")
        if wrong:
            raise ConfigError(
                f"setting {NAME}: these hosts have no address: {', '.join(wrong)}. Correct them, or name addresses"
            )
        if wanted == self._config.max_connections_per_ip_overrides:
            self.limits = limits

    async def follow(self) -> None:
        """The setting has changed while the broker runs: one that cannot be resolved is logged, and changes nothing."""
        try:
            await self.resolve()
        except ConfigError as error:
            LOGGER.error("the limits of connections by address stay as they were", extra=facts(reason=error))
