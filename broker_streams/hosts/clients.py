"""A client of the cluster that the settings of an application name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from broker_cy.admin import AdminClient
from broker_cy.client.deadline import DEFAULT_TIMEOUT_S
from broker_cy.client.security import PREFIXES, security_of

BOOTSTRAP: Final = "bootstrap.servers"


def client_of(
    config: Mapping[str, Any], client_id: str, where: str, *, timeout_s: float = DEFAULT_TIMEOUT_S
) -> AdminClient:
    """A client with the login of the settings, which are those of `where`. Raises ValueError: bootstrap.servers is
    missing. ClientError: a setting of security cannot be.
    """
    security = security_of(_security(config), where)
    servers = config.get(BOOTSTRAP)
    if not servers:
        raise ValueError(f"{where}: {BOOTSTRAP} is missing")
    named = servers if isinstance(servers, str) else ",".join(servers)
    return AdminClient(named, timeout_s=timeout_s, client_id=client_id, login=security.login, tls=security.tls)


def _security(config: Mapping[str, Any]) -> dict[str, str]:
    """The settings of connections, as texts."""
    return {name: str(value) for name, value in config.items() if name.startswith(PREFIXES) and value is not None}
