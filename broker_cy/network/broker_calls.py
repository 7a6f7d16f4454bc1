"""Requests of this broker's coordinators and partitions to other brokers, over their inter-broker listener.

Everything for one broker that comes while a request to it is under way shares the next request, so that the number of
requests does not grow with that of transactions.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Iterable, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from broker_cy.client.address import Address
from broker_cy.client.deadline import Deadline
from broker_cy.client.errors import ClientError, Failure
from broker_cy.client.pool import Peer, Pool
from broker_cy.core.classes import dataclass
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.core.logs import facts

if TYPE_CHECKING:
    from broker_cy.client.outgoing import Outgoing
    from broker_cy.client.pool import Pool
    from broker_cy.metadata.image import ImageDelta, MetadataImage
    from broker_cy.wire.codec import Message

LOGGER = logging.getLogger("broker_cy.server.coordinators")

# Entries that wait for one broker. Each belongs to a waiting transaction, which is retried if the queue is full; a
# broker that is back handles as many in a second.
WAITING_MAX: Final = 10_000
# Entries of one request: about 100 KB.
BATCH_MAX: Final = 1_000
# How long a broker may take for an answer. These requests need its memory, or one write; the metadata report a failed
# broker earlier.
ANSWER_S: Final = 10.0

# The security protocol of endpoints in the metadata.
PLAINTEXT: Final = 0

R = TypeVar("R", bound="Message")
T = TypeVar("T")
A = TypeVar("A")


class Caller(Protocol):
    """Sends requests to other brokers (BrokerCalls)."""

    async def ask(
        self, broker_id: int, request: Message, response: type[R], *, at_least: int = 0, at_most: int = 32767
    ) -> R:
        """Send a request in the highest version that both sides know, within the given ones, and return its response.
        Raises KafkaError: UNSUPPORTED_VERSION, else NETWORK_EXCEPTION.
        """


class BrokerCalls:
    """The Caller of a broker. `image` returns the committed metadata, `listener` is the name of the inter-broker
    listener; a node that is only a controller may have none, and uses a listener of the broker without TLS and login.
    """

    def __init__(
        self,
        node_id: int,
        listener: str,
        image: Callable[[], MetadataImage],
        outgoing: Outgoing,
        client_id: str | None = None,
    ) -> None:
        self._client_id = client_id or f"broker-cy-{node_id}"
        self._listener = listener
        self._image = image
        self._outgoing = outgoing
        self._pool: Pool | None = None

    async def ask(
        self, broker_id: int, request: Message, response: type[R], *, at_least: int = 0, at_most: int = 32767
    ) -> R:
        broker = self._image().brokers.get(broker_id)
        endpoint = None
        if broker is not None:
            plain = (each for each in broker.listeners.values() if each.security_protocol == PLAINTEXT)
            endpoint = broker.listeners.get(self._listener) if self._listener else next(plain, None)
        if endpoint is None:
            raise KafkaError(
                ErrorCode.NETWORK_EXCEPTION, f"broker {broker_id} has no address on listener {self._listener}"
            )
        if self._pool is None:
            self._pool = Pool(self._client_id, self._outgoing)
        peer = Peer(Address(endpoint.host, endpoint.port), broker_id, "coordinator")
        try:
            found, _ = await self._pool.ask(
                peer, request, response, Deadline(ANSWER_S), at_least=at_least, at_most=at_most
            )
        except ClientError as error:
            code = ErrorCode.NETWORK_EXCEPTION
            if error.failure is Failure.UNSUPPORTED:
                code = ErrorCode.UNSUPPORTED_VERSION
            raise KafkaError(code, str(error)) from error
        return found

    async def close(self) -> None:
        if self._pool is not None:
            await self._pool.close()


@dataclass(slots=True, eq=False)
class _BrokerQueue(Generic[T, A]):
    """The requests to one broker: entries that wait, and those of the request that is under way."""

    waiting: deque[tuple[T, asyncio.Future[A]]] = field(default_factory=deque)
    sent: list[tuple[T, asyncio.Future[A]]] = field(default_factory=list)
    task: asyncio.Task[None] | None = None


class Batches(Generic[T, A]):
    """Entries for other brokers, at most BATCH_MAX in a request, and one request to a broker at a time.

    `send(broker_id, entries)` returns an answer for each, or raises KafkaError for all of them. `key` identifies an
    entry: no two with the same key are in one request.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        send: Callable[[int, list[T]], Awaitable[Sequence[A]]],
        key: Callable[[T], Hashable],
    ) -> None:
        self._loop = loop
        self._send = send
        self._key = key
        self._queues: dict[int, _BrokerQueue[T, A]] = {}
        self._closed = False

    def ask(self, broker_id: int, entry: T) -> asyncio.Future[A]:
        """Send the entry with the next request. The future has its answer, or the KafkaError of `send`;
        NETWORK_EXCEPTION also if WAITING_MAX entries wait already.
        """
        answer: asyncio.Future[A] = self._loop.create_future()
        queue = self._queues.get(broker_id)
        if self._closed or (queue is not None and len(queue.waiting) >= WAITING_MAX):
            answer.set_exception(
                KafkaError(
                    ErrorCode.NETWORK_EXCEPTION,
                    "this broker is stopping"
                    if self._closed
                    else f"{WAITING_MAX} requests wait for broker {broker_id}",
                )
            )
            return answer
        if queue is None:
            queue = self._queues[broker_id] = _BrokerQueue()
            queue.task = self._loop.create_task(self._run(broker_id, queue))
        queue.waiting.append((entry, answer))
        return answer

    def follow(self, delta: ImageDelta, image: MetadataImage) -> None:
        """Wait no longer for brokers that are fenced or unregistered by now."""
        for broker_id in delta.brokers:
            broker = image.brokers.get(broker_id)
            if broker is None or broker.fenced:
                self._give_up(broker_id, f"broker {broker_id} left the cluster")

    def _give_up(self, broker_id: int, reason: str) -> None:
        queue = self._queues.pop(broker_id, None)
        if queue is not None:
            if queue.task is not None:
                queue.task.cancel()
            _settle([*queue.sent, *queue.waiting], KafkaError(ErrorCode.NETWORK_EXCEPTION, reason))

    async def close(self) -> None:
        """Fail the waiting entries, and wait until no request is under way."""
        self._closed = True
        tasks = [queue.task for queue in self._queues.values() if queue.task is not None]
        for broker_id in list(self._queues):
            self._give_up(broker_id, "this broker is stopping")
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, broker_id: int, queue: _BrokerQueue[T, A]) -> None:
        while queue.waiting:
            queue.sent = self._next(queue.waiting)
            try:
                answers = await self._send(broker_id, [entry for entry, _ in queue.sent])
            except KafkaError as error:
                _settle(queue.sent, error)
            except Exception as error:
                # A defect: callers must not wait for an answer forever.
                LOGGER.exception("a request to another broker failed", extra=facts(node=broker_id))
                _settle(queue.sent, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, repr(error)))
            else:
                for (_, future), answer in zip(queue.sent, answers, strict=True):
                    if not future.done():
                        future.set_result(answer)
        del self._queues[broker_id]

    def _next(self, waiting: deque[tuple[T, asyncio.Future[A]]]) -> list[tuple[T, asyncio.Future[A]]]:
        """Take the entries of the next request, the oldest first."""
        taken: dict[Hashable, tuple[T, asyncio.Future[A]]] = {}
        left: list[tuple[T, asyncio.Future[A]]] = []
        while waiting and len(taken) < BATCH_MAX:
            found = waiting.popleft()
            if self._key(found[0]) in taken:
                left.append(found)
            else:
                taken[self._key(found[0])] = found
        waiting.extendleft(reversed(left))
        return list(taken.values())


def _settle(entries: Iterable[tuple[Any, asyncio.Future[Any]]], error: KafkaError) -> None:
    for _, future in entries:
        if not future.done():
            future.set_exception(error)
