"""brokercy.metrics.listener: where metrics are served."""

from __future__ import annotations

from typing import Final

from broker_cy.client.address import Address, parse_address
from broker_cy.network.sockets import ListenError

# Only an example in errors: the port is required.
_EXAMPLE_PORT: Final = 9404


def metrics_address(text: str) -> Address:
    """Parse HOST:PORT. An empty host means every address, port 0 a free one. Raises ListenError."""
    try:
        return parse_address(text, _EXAMPLE_PORT, needs_port=True, port_min=0, is_listener=True)
    except ValueError as error:
        raise ListenError(f"brokercy.metrics.listener: {error}") from None
