"""Binds the listener of the metrics page, if the node has one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from broker_cy.telemetry.metrics_address import metrics_address

if TYPE_CHECKING:
    import asyncio

    from broker_cy.config import BrokerConfig
    from broker_cy.telemetry.metrics_http import MetricsServer
    from broker_cy.telemetry.node_pages import Pages


def bind_metrics(
    config: BrokerConfig,
    loop: asyncio.AbstractEventLoop,
    page: Callable[[frozenset[str] | None], Awaitable[bytes]],
    missing: Callable[[], list[str]],
    pages: Pages | None = None,
) -> MetricsServer | None:
    """Bind brokercy.metrics.listener; None if it is not set. `page`, `missing` and `pages` as in MetricsServer.
    Raises ListenError, ConfigError.
    """
    if not config["brokercy.metrics.listener"]:
        return None
    address = metrics_address(config["brokercy.metrics.listener"])
    # Imported here, because a node that serves no metrics does not need these modules.
    from broker_cy.telemetry.metrics_access import access_of
    from broker_cy.telemetry.metrics_http import MetricsServer

    return MetricsServer.bind(loop, *address, page, missing, access_of(config, loop.time), pages)
