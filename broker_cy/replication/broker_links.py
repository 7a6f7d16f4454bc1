"""Connections of this broker to the inter-broker listeners of others (links.Links), and AlterPartition to the active
controller (alterations.ControllerLink).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from broker_cy.client.address import Address
from broker_cy.client.connection import Connection, ConnectionFailed, TimedOut, open_connection
from broker_cy.client.deadline import Deadline
from broker_cy.controller.alter_partition import AlterPartition
from broker_cy.core.errors import KafkaError
from broker_cy.replication.links import Asking, Link, LinkFailed
from broker_cy.wire import messages

if TYPE_CHECKING:
    from broker_cy.client.outgoing import Outgoing
    from broker_cy.control.controller_service import ControllerService
    from broker_cy.metadata.image import MetadataImage

CONNECT_S: Final = 5.0
ALTER_S: Final = 5.0
ALTER_VERSION: Final = 3


class _Ticket:
    """See connection.Ticket."""

    __slots__ = ("_asking",)

    def __init__(self, asking: Asking) -> None:
        self._asking = asking

    def done(self) -> bool:
        return False

    def set_result(self, body: memoryview, /) -> None:
        self._asking.answered(body)

    def set_exception(self, error: ConnectionFailed, /) -> None:
        self._asking.failed(LinkFailed(str(error)))


class BrokerLink:
    """See links.Link."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def ask(self, api_key: int, version: int, body: bytes, asking: Asking) -> None:
        try:
            self._connection.ask(api_key, version, body, _Ticket(asking))
        except ConnectionFailed as error:
            raise LinkFailed(str(error)) from error

    async def exchange(self, api_key: int, version: int, body: bytes, timeout_s: float) -> memoryview:
        try:
            return await self._connection.exchange(api_key, version, body, Deadline(timeout_s))
        except TimedOut as error:
            raise LinkFailed(f"no answer within {timeout_s:g} s") from error
        except ConnectionFailed as error:
            raise LinkFailed(str(error)) from error

    def close(self) -> None:
        self._connection.close()


class BrokerLinks:
    """See links.Links. `image` returns the newest committed image, `listener` is the inter-broker listener."""

    def __init__(self, node_id: int, image: Callable[[], MetadataImage], listener: str, outgoing: Outgoing) -> None:
        self._node_id = node_id
        self._outgoing = outgoing
        self._image = image
        self._listener = listener

    async def connect(self, broker_id: int) -> Link:
        broker = self._image().brokers.get(broker_id)
        endpoint = broker.listeners.get(self._listener) if broker is not None else None
        if endpoint is None:
            raise LinkFailed(f"broker {broker_id} is not registered with the listener {self._listener}")
        address = Address(endpoint.host, endpoint.port)
        try:
            connection = await open_connection(
                address, f"broker-{self._node_id}-fetcher", Deadline(CONNECT_S), self._outgoing
            )
        except TimedOut as error:
            raise LinkFailed(f"{address} does not answer within {CONNECT_S:g} s") from error
        except ConnectionFailed as error:
            raise LinkFailed(str(error)) from error
        return BrokerLink(connection)


class AlterLink:
    """See alterations.ControllerLink."""

    def __init__(self, controller: ControllerService) -> None:
        self._controller = controller

    async def alter_partition(self, request: messages.AlterPartitionRequest) -> messages.AlterPartitionResponse:
        try:
            response: messages.AlterPartitionResponse = await self._controller.run(
                AlterPartition(request, ALTER_VERSION),
                request,
                messages.AlterPartitionResponse,
                lambda response: response,
                ALTER_S,
            )
        except KafkaError as error:
            raise LinkFailed(str(error)) from error
        return response
