"""The context of a request: what a handler knows besides its body."""

from __future__ import annotations

from broker_cy.metrics.events import Client
from broker_cy.server.broker import Broker

# Kafka's principal of a connection without authentication.
ANONYMOUS = "User:ANONYMOUS"


class RequestContext:
    """One request of a client: its API and version, the client and where it came from, and the broker that serves it.

    `principal` is who the client is, as Kafka writes it: `User:NAME`.
    """

    # Whether another broker has forwarded it, after its own checks.
    is_forwarded = False

    __slots__ = (
        "api_key",
        "broker",
        "client_host",
        "client_id",
        "connection_id",
        "listener",
        "principal",
        "version",
    )

    def __init__(
        self,
        broker: Broker,
        api_key: int,
        version: int,
        client_id: str | None,
        client_host: str,
        listener: str,
        connection_id: str = "",
        principal: str = ANONYMOUS,
    ) -> None:
        self.broker = broker
        self.api_key = api_key
        self.version = version
        self.client_id = client_id
        self.client_host = client_host
        self.listener = listener
        self.connection_id = connection_id
        self.principal = principal

    @property
    def is_for_controller(self) -> bool:
        """Whether the request arrived on a listener of controllers."""
        return self.listener in self.broker.config.network.controller_names

    @property
    def client(self) -> Client:
        """The client, as events name it."""
        return Client(client_id=self.client_id or "", host=self.client_host, principal=self.principal)


class ForwardedContext(RequestContext):
    """A request that a broker forwarded to the active controller in an Envelope."""

    __slots__ = ()
    is_forwarded = True
