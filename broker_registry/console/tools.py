"""The schemas of a cluster, for consoles. A console without a registry loads nothing of it: the imports are in the
function.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker_cy.client.clusters import ClusterEntry
from broker_registry.serdes.tools import client_of

if TYPE_CHECKING:
    from broker_registry.console.session import SchemaSession


def schemas_of(entry: ClusterEntry) -> SchemaSession | None:
    """Return the registry of a cluster; None if it has none. Raises ClientError."""
    client = client_of(entry)
    if client is None:
        return None
    from broker_registry.console.session import SchemaSession

    return SchemaSession(client)
