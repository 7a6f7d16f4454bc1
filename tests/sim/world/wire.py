"""A client's connection over the world's network, with the broker's own codec and the client core's framing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from broker_cy.client.exchange import SIZE_BYTES, Exchange
from broker_cy.core.errors import ErrorCode
from broker_cy.server.coordinators.coordinator_service import LOAD_WAIT_S
from broker_cy.wire import codec, messages

if TYPE_CHECKING:
    from tests.sim.world.network import Connection
    from tests.sim.world.world import World

TIMEOUT_S = 5.0
# A coordinator that is being loaded lets these wait, and so long at least: clocks drift.
HELD = (
    messages.JoinGroupRequest,
    messages.SyncGroupRequest,
    messages.LeaveGroupRequest,
    messages.OffsetCommitRequest,
    messages.OffsetFetchRequest,
    messages.OffsetDeleteRequest,
    messages.InitProducerIdRequest,
    messages.EndTxnRequest,
)
HELD_LEAST_US = int(LOAD_WAIT_S * 0.99e6)


def codes_of(message: Any) -> Iterator[int]:
    """All error codes of an answer."""
    for name in message.__slots__:
        value = getattr(message, name, None)
        if name.endswith("error_code"):
            assert isinstance(value, int)
            yield value
        elif isinstance(value, list) and value and hasattr(value[0], "__slots__"):
            for each in value:
                yield from codes_of(each)


class Lost(Exception):
    """No answer: the request may have arrived or not."""


class Channel:
    """One connection of the client `name` to `host`; after Lost it is never used again."""

    def __init__(self, world: World, name: str, host: str) -> None:
        self._world = world
        self._name = name
        self._host = host
        self._exchange: Exchange[tuple[type[Any], int, asyncio.Future[Any], int]] = Exchange(name)
        self._inbox = bytearray()
        self._connection: Connection | None = None
        self.is_lost = False

    async def open(self, timeout_s: float = TIMEOUT_S) -> None:
        """Connect. Raises Lost."""
        loop = self._world.clients
        opened: asyncio.Future[Connection | None] = loop.create_future()

        def done(connection: Connection | None) -> None:
            if not opened.done():
                opened.set_result(connection)
            elif connection is not None:
                connection.close()

        self._world.network.connect(self._name, self._host, self, done)
        timer = loop.call_later(timeout_s, done, None)
        self._connection = await opened
        timer.cancel()
        if self._connection is None:
            self.is_lost = True
            raise Lost(f"{self._name}: no connection to {self._host}")

    def send(self, request: Any, version: int, timeout_s: float = TIMEOUT_S) -> asyncio.Future[Any]:
        """Send a request; the result is its answer, or Lost."""
        loop = self._world.clients
        answer: asyncio.Future[Any] = loop.create_future()
        if self.is_lost or self._connection is None:
            answer.set_exception(Lost(f"{self._name}: the connection is lost"))
            return answer
        response = getattr(messages, type(request).__name__.removesuffix("Request") + "Response")
        body = codec.encode(request, version)
        held_until_us = self._world.time.now_us + HELD_LEAST_US if isinstance(request, HELD) else 0
        head = self._exchange.head(request.API_KEY, version, len(body), (response, version, answer, held_until_us))
        self._connection.send(head + body)
        timer = loop.call_later(timeout_s, self.lost, f"no answer to {type(request).__name__}")
        answer.add_done_callback(lambda _: timer.cancel())
        return answer

    def close(self) -> None:
        self.lost("closed by the client")

    # --- what the network calls

    def received(self, data: bytes) -> None:
        if self.is_lost:
            return
        self._inbox += data
        while len(self._inbox) >= SIZE_BYTES:
            end = SIZE_BYTES + self._exchange.answer_bytes(self._inbox)
            if len(self._inbox) < end:
                return
            (response, version, answer, held_until_us), body = self._exchange.take(
                memoryview(bytes(self._inbox[SIZE_BYTES:end]))
            )
            del self._inbox[:end]
            found = codec.decode(response, version, body)
            assert self._world.time.now_us >= held_until_us or (
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS not in codes_of(found)
            ), f"{self._name}: {response.__name__} says at once that the coordinator is being loaded"
            if not answer.done():
                answer.set_result(found)

    def lost(self, reason: str) -> None:
        if self.is_lost:
            return
        self.is_lost = True
        if self._connection is not None:
            self._connection.close()
        for _, _, answer, _ in self._exchange.abandon():
            if not answer.done():
                answer.set_exception(Lost(f"{self._name}: {reason}"))
                # Whoever waits hears it; a request that nobody awaits any more was given up.
                answer.exception()
