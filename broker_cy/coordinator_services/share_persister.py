"""The client of the share coordinator, on whichever broker that is: for the leaders of share partitions, and for group
coordinators.

Requests to one broker of one kind share the next request to it (`Batches`), one for each group, as in Kafka. A request
whose coordinator is not known, not ready or not reached is sent again, to the coordinator of then: ATTEMPTS times in
all, with growing pauses.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar
from uuid import UUID

from broker_cy.coordinator.share_state import answers
from broker_cy.coordinator.share_state.answers import Outcome, StateRead, SummaryRead
from broker_cy.coordinator.share_state.state import NO_EPOCH, SharePartitionKey, ShareState, StateBatch
from broker_cy.core.classes import NamedTuple
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.network.broker_calls import Batches, Caller
from broker_cy.wire import messages as m

if TYPE_CHECKING:
    from broker_cy.coordinator_services.share_state_service import ShareStateService
    from broker_cy.core.randomness import Randomness
    from broker_cy.metadata.image import ImageDelta, MetadataImage

# As in Kafka's PersisterStateManager. Its limit of 30 s for a pause is not reached: the fourth and last one has 8 s.
ATTEMPTS: Final = 5
PAUSE_S: Final = 1.0
JITTER: Final = 0.2
_AGAIN: Final = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)

A = TypeVar("A", Outcome, StateRead, SummaryRead)


class Entry(NamedTuple):
    """A request about one share partition: `partition` makes its part of the message to another broker, `here` runs it
    on this one.
    """

    key: SharePartitionKey
    partition: Callable[[], Any]
    here: Callable[[ShareStateService], Awaitable[Any]]


class Kind(NamedTuple):
    """One of the requests: the classes of its messages, the answer in a result of the response, and a refusal."""

    name: str
    request: type[Any]
    topic: type[Any]
    response: type[Any]
    answer: Callable[[Any], Any]
    refused: Callable[[ErrorCode], Any]


def _outcome(result: Any) -> Outcome:
    return Outcome(ErrorCode(result.error_code), result.error_message)


def _read(result: m.ReadShareGroupStateResponse.PartitionResult) -> StateRead:
    batches = tuple(
        StateBatch(each.first_offset, each.last_offset, each.delivery_count, each.delivery_state)
        for each in result.state_batches
    )
    code = ErrorCode(result.error_code)
    return StateRead(code, result.error_message, result.state_epoch, result.start_offset, batches)


def _summary(result: m.ReadShareGroupStateSummaryResponse.PartitionResult) -> SummaryRead:
    return SummaryRead(
        ErrorCode(result.error_code),
        result.error_message,
        result.state_epoch,
        result.leader_epoch,
        result.start_offset,
        result.delivery_complete_count,
    )


INITIALIZE: Final = Kind(
    "initialize state",
    m.InitializeShareGroupStateRequest,
    m.InitializeShareGroupStateRequest.InitializeStateData,
    m.InitializeShareGroupStateResponse,
    _outcome,
    answers.refused_initialization,
)
READ: Final = Kind(
    "read state",
    m.ReadShareGroupStateRequest,
    m.ReadShareGroupStateRequest.ReadStateData,
    m.ReadShareGroupStateResponse,
    _read,
    answers.refused_read,
)
WRITE: Final = Kind(
    "write state",
    m.WriteShareGroupStateRequest,
    m.WriteShareGroupStateRequest.WriteStateData,
    m.WriteShareGroupStateResponse,
    _outcome,
    answers.refused_write,
)
DELETE: Final = Kind(
    "delete state",
    m.DeleteShareGroupStateRequest,
    m.DeleteShareGroupStateRequest.DeleteStateData,
    m.DeleteShareGroupStateResponse,
    _outcome,
    answers.refused_deletion,
)
SUMMARY: Final = Kind(
    "read state summary",
    m.ReadShareGroupStateSummaryRequest,
    m.ReadShareGroupStateSummaryRequest.ReadStateSummaryData,
    m.ReadShareGroupStateSummaryResponse,
    _summary,
    answers.refused_summary,
)
KINDS: Final = (INITIALIZE, READ, WRITE, DELETE, SUMMARY)


class SharePersister:
    """A future of it always has an answer. `service` is this broker's share coordinator, `calls` reaches the others."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, service: ShareStateService, calls: Caller, randomness: Randomness
    ) -> None:
        self._loop = loop
        self._service = service
        self._calls = calls
        self._randomness = randomness
        self._batches = {kind.name: self._new_batches(kind) for kind in KINDS}
        # One for each waiting request: bounded by the share partitions and heartbeats that wait for them.
        self._tasks: dict[asyncio.Task[Any], None] = {}

    def _new_batches(self, kind: Kind) -> Batches[Entry, Any]:
        async def send(broker_id: int, entries: list[Entry]) -> list[Any]:
            return await self._send(kind, broker_id, entries)

        return Batches(self._loop, send, lambda entry: entry.key)

    def apply(self, delta: ImageDelta, image: MetadataImage) -> None:
        """The committed metadata have changed."""
        for batches in self._batches.values():
            batches.follow(delta, image)

    async def close(self) -> None:
        """Answer everything that waits with COORDINATOR_NOT_AVAILABLE."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for batches in self._batches.values():
            await batches.close()

    # ---- requests ----

    def initialize(self, key: SharePartitionKey, state_epoch: int, start_offset: int) -> asyncio.Future[Outcome]:
        partition = partial(
            m.InitializeShareGroupStateRequest.PartitionData,
            partition=key.partition,
            state_epoch=state_epoch,
            start_offset=start_offset,
        )
        entry = Entry(key, partition, lambda service: service.initialize(key, state_epoch, start_offset))
        return self._ask(INITIALIZE, entry)

    def read(self, key: SharePartitionKey, leader_epoch: int) -> asyncio.Future[StateRead]:
        partition = partial(
            m.ReadShareGroupStateRequest.PartitionData, partition=key.partition, leader_epoch=leader_epoch
        )
        return self._ask(READ, Entry(key, partition, lambda service: service.read(key, leader_epoch)))

    def write(
        self,
        key: SharePartitionKey,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: Sequence[StateBatch],
    ) -> asyncio.Future[Outcome]:
        change = ShareState(0, state_epoch, leader_epoch, start_offset, delivery_complete_count, tuple(batches))
        entry = Entry(key, partial(_write_part, key, change), lambda service: service.write(key, change))
        return self._ask(WRITE, entry)

    def delete(self, key: SharePartitionKey) -> asyncio.Future[Outcome]:
        partition = partial(m.DeleteShareGroupStateRequest.PartitionData, partition=key.partition)
        return self._ask(DELETE, Entry(key, partition, lambda service: service.delete(key)))

    def read_summary(self, key: SharePartitionKey, leader_epoch: int = NO_EPOCH) -> asyncio.Future[SummaryRead]:
        """As in Kafka, the coordinator does not check the leader epoch."""
        partition = partial(
            m.ReadShareGroupStateSummaryRequest.PartitionData, partition=key.partition, leader_epoch=leader_epoch
        )
        return self._ask(SUMMARY, Entry(key, partition, lambda service: service.read_summary(key)))

    # ---- attempts ----

    def _ask(self, kind: Kind, entry: Entry) -> asyncio.Future[Any]:
        task = self._loop.create_task(self._try(kind, entry))
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)
        return task

    async def _try(self, kind: Kind, entry: Entry) -> Any:
        try:
            for attempt in range(ATTEMPTS):
                answer = await self._once(kind, entry)
                if answer.code not in _AGAIN:
                    return answer
                if attempt + 1 < ATTEMPTS:
                    await asyncio.sleep(PAUSE_S * 2**attempt * self._randomness.between(1 - JITTER, 1 + JITTER))
        except asyncio.CancelledError:
            # This broker is stopping. Those that wait for the answer are ended later.
            return kind.refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return answer._replace(message=f"Exhausted max retries to complete {kind.name} RPC without success.")

    async def _once(self, kind: Kind, entry: Entry) -> Any:
        code = await self._service.ensure_topic()
        if code is not ErrorCode.NONE:
            return kind.refused(code)
        other = self._service.other_coordinator(entry.key.text)
        if other is None:
            return await entry.here(self._service)
        try:
            return await self._batches[kind.name].ask(other, entry)
        except KafkaError as error:
            return kind.refused(error.code)

    async def _send(self, kind: Kind, broker_id: int, entries: list[Entry]) -> list[Any]:
        """A request has the share partitions of one group. Each key occurs once."""
        groups: dict[str, dict[UUID, list[Entry]]] = {}
        for entry in entries:
            groups.setdefault(entry.key.group_id, {}).setdefault(entry.key.topic_id, []).append(entry)
        found: dict[SharePartitionKey, Any] = {}
        asked = [
            self._calls.ask(broker_id, _request(kind, group_id, topics), kind.response)
            for group_id, topics in groups.items()
        ]
        responses = await asyncio.gather(*asked, return_exceptions=True)
        refused: dict[str, ErrorCode] = {}
        for group_id, response in zip(groups, responses, strict=True):
            if isinstance(response, KafkaError):
                refused[group_id] = response.code
            elif isinstance(response, BaseException):
                raise response
            else:
                for topic in response.results:
                    for result in topic.partitions:
                        key = SharePartitionKey(group_id, topic.topic_id, result.partition)
                        found[key] = kind.answer(result)
        # Kafka gives a malformed request a response without results.
        missing = ErrorCode.UNKNOWN_SERVER_ERROR
        return [found.get(entry.key) or kind.refused(refused.get(entry.key.group_id, missing)) for entry in entries]


def _write_part(key: SharePartitionKey, change: ShareState) -> m.WriteShareGroupStateRequest.PartitionData:
    return m.WriteShareGroupStateRequest.PartitionData(
        partition=key.partition,
        state_epoch=change.state_epoch,
        leader_epoch=change.leader_epoch,
        start_offset=change.start_offset,
        delivery_complete_count=change.delivery_complete_count,
        state_batches=[
            m.WriteShareGroupStateRequest.StateBatch(
                first_offset=first, last_offset=last, delivery_count=count, delivery_state=state
            )
            for first, last, count, state in change.batches
        ],
    )


def _request(kind: Kind, group_id: str, topics: dict[UUID, list[Entry]]) -> Any:
    return kind.request(
        group_id=group_id,
        topics=[
            kind.topic(topic_id=topic_id, partitions=[entry.partition() for entry in entries])
            for topic_id, entries in topics.items()
        ],
    )
