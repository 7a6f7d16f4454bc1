"""The logins of the listeners of a node; their modules are loaded only if a listener has SASL."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker_cy.broker.broker import Broker
    from broker_cy.connections.login import Logins


def logins_of(broker: Broker) -> Mapping[str, Logins]:
    """The logins of listeners with SASL, by the name of the listener."""
    if not broker.config.sasl.listeners:
        return {}
    from broker_cy.connections.login import Logins, ScramUsers

    users = ScramUsers(broker)
    return {
        name: Logins(broker, name, settings, users, randomness=broker.randomness)
        for name, settings in broker.config.sasl.listeners.items()
    }
