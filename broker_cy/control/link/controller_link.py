"""Requests of this node to the active controller on another node: its own ones, and those of clients, which are
forwarded in an Envelope (KIP-590).

A request that finds no active controller, or one that leads no longer, is repeated until its deadline: an election
takes a second or two, and clients would only ask again. As in Kafka, a request may therefore be carried out twice if a
connection breaks before the response.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, TypeVar

from broker_cy.client.address import Address
from broker_cy.client.deadline import Deadline
from broker_cy.client.errors import ClientError
from broker_cy.client.pool import Peer, Pool
from broker_cy.control.link import envelope
from broker_cy.core.errors import ErrorCode, KafkaError, WireError
from broker_cy.wire import messages
from broker_cy.wire.codec import Message

R = TypeVar("R", bound=Message)

# Between two attempts to find the active controller.
RETRY_S: Final = 0.05


class ControllerLink:
    """`leader` returns the id of the active controller, -1 if none is known; `address_of` the address of a controller's
    listener.

    This node's own requests and those of clients have different connections, in `own` and `forwarded`: a controller
    answers the requests of one in their order, and some of clients take long, as a new voter first has to catch up.
    """

    def __init__(
        self,
        node_id: int,
        own: Pool,
        forwarded: Pool,
        leader: Callable[[], int],
        address_of: Callable[[int], Address | None],
    ) -> None:
        self._node_id = node_id
        self._own = own
        self._forwarded = forwarded
        self._leader = leader
        self._address_of = address_of
        # The requests that a change of the active controller concerns, in order: a set would have that of addresses.
        self._waiting: dict[asyncio.Future[None], None] = {}

    def leader_changed(self) -> None:
        """The active controller has changed or is unknown: requests that wait for the former one are sent again."""
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)

    async def ask(self, request: Message, response: type[R], timeout_s: float) -> R | None:
        """Send a request of this node, and return the response; None if this node is the active controller by now.
        Raises KafkaError with the error of the response, REQUEST_TIMED_OUT if no active controller answers in time.
        """
        return await self._ask(self._own, request, response, timeout_s)

    async def _ask(self, pool: Pool, request: Message, response: type[R], timeout_s: float) -> R | None:
        deadline = Deadline(timeout_s)
        while self._leader() != self._node_id:
            found = await self._attempt(pool, request, response, deadline)
            code = getattr(found, "error_code", 0) if found is not None else ErrorCode.NOT_CONTROLLER
            if code not in (ErrorCode.NONE, ErrorCode.NOT_CONTROLLER):
                raise KafkaError(ErrorCode(code), getattr(found, "error_message", None) or ErrorCode(code).name)
            if found is not None and code == ErrorCode.NONE:
                return found
            await self._pause(deadline)
        return None

    async def forward(self, ctx: envelope.Asked, request: Message, response: type[R], timeout_s: float) -> R | None:
        """Forward the request of a client, and return the response for it. Otherwise as `ask`."""
        wrapped = messages.EnvelopeRequest(
            request_data=envelope.request_data(ctx, request),
            request_principal=envelope.principal_data(ctx.principal, by_token=ctx.by_token),
            client_host_address=envelope.packed_address(ctx.client_host),
        )
        found = await self._ask(self._forwarded, wrapped, messages.EnvelopeResponse, timeout_s)
        if found is None:
            return None
        try:
            return envelope.read_response(ctx, response, found.response_data)
        except WireError as error:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the controller's answer: {error}") from error

    async def _attempt(self, pool: Pool, request: Message, response: type[R], deadline: Deadline) -> R | None:
        """None if the active controller is not known or cannot be reached."""
        leader_id = self._leader()
        address = self._address_of(leader_id) if leader_id >= 0 else None
        if address is None:
            return None
        asking = asyncio.ensure_future(pool.ask(Peer(address, leader_id), request, response, deadline))
        try:
            await self._until_change(asking)
            return asking.result()[0] if asking.done() else None
        except ClientError as error:
            if not error.retriable:
                raise KafkaError(error.code or ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from error
            return None
        finally:
            asking.cancel()

    async def _until_change(self, other: asyncio.Future[Any] | None, timeout_s: float | None = None) -> None:
        """Wait until another active controller is known, or for `other`, `timeout_s` at most."""
        change: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[change] = None
        try:
            awaited = {change} if other is None else {change, other}
            await asyncio.wait(awaited, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._waiting.pop(change, None)

    async def _pause(self, deadline: Deadline) -> None:
        if deadline.left_s <= RETRY_S:
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"no active controller answered within {deadline.timeout_s:g} s: a majority of the controllers must be "
                "running and reachable",
            )
        await self._until_change(None, RETRY_S)
