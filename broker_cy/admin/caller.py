"""Routes calls to the brokers that can answer them, and retries them.

A call concerns several keys (partitions, groups, broker ids). `Caller.spread` determines which broker answers for which
key, sends requests to those brokers concurrently, with a limited number of keys each, and repeats the keys that failed
with an error that Kafka calls retriable, until the deadline.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping
from typing import Generic, Protocol, TypeVar

from broker_cy.admin.metadata import NO_LEADER, Metadata, TopicPartition
from broker_cy.client.deadline import Deadline
from broker_cy.client.errors import ClientError, Failure, Problem, refused
from broker_cy.client.pool import Peer
from broker_cy.core.classes import dataclass
from broker_cy.core.errors import ErrorCode
from broker_cy.wire.codec import Message

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
R = TypeVar("R", bound=Message)

# A topic that was created a moment ago may not be known to every broker yet. One that is still unknown after this many
# attempts (about 0.3 s) was probably misspelt, and the caller should learn of it soon.
UNKNOWN_ATTEMPTS = 3
_UNKNOWN = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})


@dataclass(frozen=True, slots=True)
class Outcome(Generic[K, V]):
    """The result of a call for several keys: each key is in `found` or in `failed`."""

    found: dict[K, V]
    failed: dict[K, ClientError]

    def whole(self) -> dict[K, V]:
        """Return `found`; raises the first failure, if any."""
        for error in self.failed.values():
            raise error
        return self.found


class Locator(Protocol[K]):
    """Determines which broker answers for a key."""

    async def locate(self, keys: list[K], deadline: Deadline) -> tuple[dict[Peer, list[K]], dict[K, ClientError]]:
        """Return the keys by broker, and those that have no broker now. Raises ClientError if the lookup itself
        failed.
        """

    def forget(self, keys: Iterable[K]) -> None:
        """Look these keys up again: their broker did not answer, or is not the right one."""


Send = Callable[[Peer, list[K], Deadline], Awaitable[Mapping[K, V | Problem]]]


class Caller:
    """One cluster, and the time limit of a call."""

    def __init__(self, metadata: Metadata, timeout_s: float) -> None:
        if not timeout_s > 0:
            raise ClientError(Failure.INVALID, f"a timeout of {timeout_s} s: must be above 0")
        self.metadata = metadata
        self.pool = metadata.pool
        self.timeout_s = timeout_s

    def deadline(self) -> Deadline:
        return Deadline(self.timeout_s)

    def may_retry(self, error: ClientError, attempt: int, repeatable: bool = True) -> bool:
        """Whether attempt number `attempt` (1 is the first), which ended in `error`, may be followed by another."""
        if error.code in _UNKNOWN and attempt >= UNKNOWN_ATTEMPTS:
            return False
        # A client that never reached the cluster probably has a wrong address: it need not wait to learn that.
        if error.failure is Failure.UNREACHABLE and not self.pool.has_connected:
            return False
        if not repeatable and error.failure in (Failure.UNREACHABLE, Failure.TIMED_OUT) and error.api != "connect":
            return False
        return error.retriable

    async def ask(
        self,
        request: Message,
        answer: type[R],
        problem: Callable[[R], Problem | None],
        *,
        node_id: int | None = None,
        controller: bool = False,
        deadline: Deadline | None = None,
        at_least: int = 0,
        at_most: int = 32767,
        what: str = "",
    ) -> R:
        """Send one request to any broker, to broker `node_id`, or to the `controller`, and return its answer.

        `problem` finds the answer's error code. Raises ClientError if it is not retriable or the deadline has passed.
        """
        deadline = deadline or self.deadline()
        attempt = 1
        while True:
            try:
                if node_id is not None:
                    peer = await self.metadata.peer(node_id, deadline)
                elif controller:
                    peer = await self.controller(deadline)
                else:
                    peer = await self.metadata.any_peer(deadline)
                got, _ = await self.pool.ask(peer, request, answer, deadline, at_least=at_least, at_most=at_most)
                found = problem(got)
                if found is None:
                    return got
                error = refused(found, peer.name, type(request).__name__.removesuffix("Request"), what)
            except ClientError as raised:
                error = raised if raised.what else raised.about(what)
            if not self.may_retry(error, attempt) or not await deadline.back_off(attempt):
                raise error
            if controller and error.code is ErrorCode.NOT_CONTROLLER:
                await self.metadata.refresh((), deadline)
            attempt += 1

    async def controller(self, deadline: Deadline) -> Peer:
        """Return the broker for changes: the reported controller, or any broker, which forwards them (KIP-590)."""
        if not self.metadata.nodes:
            await self.metadata.refresh((), deadline)
        node = self.metadata.nodes.get(self.metadata.controller_id)
        return await self.metadata.any_peer(deadline) if node is None else self.metadata.peer_of(node)

    async def spread(
        self,
        keys: Iterable[K],
        locator: Locator[K],
        send: Send[K, V],
        *,
        api: str,
        name: Callable[[K], str],
        chunk: int,
        deadline: Deadline | None = None,
        repeatable: bool = True,
    ) -> Outcome[K, V]:
        """Call `send` for the keys of each broker that `locator` names, with at most `chunk` keys in one request.

        `name` describes a key in errors. Unless `repeatable`, requests that may have been carried out are not sent
        again.
        """
        deadline = deadline or self.deadline()
        found: dict[K, V] = {}
        failed: dict[K, ClientError] = {}
        pending = list(dict.fromkeys(keys))
        order = pending
        attempt = 1
        while pending:
            problems = await self._round(pending, locator, send, api, name, chunk, deadline, found)
            pending = []
            for key, error in problems.items():
                if self.may_retry(error, attempt, repeatable):
                    pending.append(key)
                failed[key] = error
            if pending:
                locator.forget(pending)
                if not await deadline.back_off(attempt):
                    break
                for key in pending:
                    del failed[key]
            attempt += 1
        # In the order of the request, not of the answers.
        return Outcome({key: found[key] for key in order if key in found}, failed)

    async def _round(
        self,
        pending: list[K],
        locator: Locator[K],
        send: Send[K, V],
        api: str,
        name: Callable[[K], str],
        chunk: int,
        deadline: Deadline,
        found: dict[K, V],
    ) -> dict[K, ClientError]:
        """Make one attempt for each key. Results are added to `found`; failures are returned."""
        try:
            places, problems = await locator.locate(pending, deadline)
        except ClientError as error:
            return {key: error.about(name(key)) for key in pending}
        problems = dict(problems)

        async def ask(peer: Peer, part: list[K]) -> None:
            try:
                answers = await send(peer, part, deadline)
            except ClientError as error:
                problems.update({key: error.about(name(key)) for key in part})
                return
            for key in part:
                answer = answers.get(key)
                if answer is None:
                    problems[key] = ClientError(
                        Failure.MALFORMED, "the answer does not mention it", broker=peer.name, api=api, what=name(key)
                    )
                elif isinstance(answer, Problem):
                    problems[key] = refused(answer, peer.name, api, name(key))
                else:
                    found[key] = answer

        async with asyncio.TaskGroup() as group:
            for peer, theirs in places.items():
                for start in range(0, len(theirs), chunk):
                    group.create_task(ask(peer, theirs[start : start + chunk]))
        return problems


class Leaders:
    """Locates partitions: their leaders answer for them."""

    def __init__(self, metadata: Metadata) -> None:
        self.metadata = metadata

    async def locate(
        self, keys: list[TopicPartition], deadline: Deadline
    ) -> tuple[dict[Peer, list[TopicPartition]], dict[TopicPartition, ClientError]]:
        _, failed_topics = await self.metadata.topics((key.topic for key in keys), deadline)
        places: dict[Peer, list[TopicPartition]] = {}
        failed: dict[TopicPartition, ClientError] = {}
        peers: dict[int, Peer] = {}
        for key in keys:
            leader = self.metadata.leader_of(key)
            if (error := failed_topics.get(key.topic)) is not None:
                failed[key] = error.about(f"partition {key}")
            elif leader is None:
                failed[key] = refused(Problem(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), "", "Metadata", f"partition {key}")
            elif leader == NO_LEADER or leader not in self.metadata.nodes:
                failed[key] = refused(Problem(ErrorCode.LEADER_NOT_AVAILABLE), "", "Metadata", f"partition {key}")
            else:
                if leader not in peers:
                    peers[leader] = await self.metadata.peer(leader, deadline)
                places.setdefault(peers[leader], []).append(key)
        return places, failed

    def forget(self, keys: Iterable[TopicPartition]) -> None:
        self.metadata.forget({key.topic for key in keys})


class Brokers:
    """Locates broker ids."""

    def __init__(self, metadata: Metadata) -> None:
        self.metadata = metadata

    async def locate(self, keys: list[int], deadline: Deadline) -> tuple[dict[Peer, list[int]], dict[int, ClientError]]:
        places: dict[Peer, list[int]] = {}
        failed: dict[int, ClientError] = {}
        for key in keys:
            try:
                places[await self.metadata.peer(key, deadline)] = [key]
            except ClientError as error:
                failed[key] = error
        return places, failed

    def forget(self, keys: Iterable[int]) -> None:
        """Nothing is kept: an unknown broker is looked up each time."""


class Controller(Generic[K]):
    """Locates every key at the controller."""

    def __init__(self, caller: Caller) -> None:
        self.caller = caller
        self._stale = False

    async def locate(self, keys: list[K], deadline: Deadline) -> tuple[dict[Peer, list[K]], dict[K, ClientError]]:
        if self._stale:
            await self.caller.metadata.refresh((), deadline)
            self._stale = False
        return {await self.caller.controller(deadline): keys}, {}

    def forget(self, keys: Iterable[K]) -> None:
        self._stale = True


async def every_broker(caller: Caller, deadline: Deadline) -> list[int]:
    """Return the ids of the brokers that the cluster has now, lowest first."""
    await caller.metadata.refresh((), deadline)
    return sorted(caller.metadata.nodes)
