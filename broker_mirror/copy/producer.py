"""The producer of a copy flow: it sends batches that are encoded already, and records of the flow's own topics.

With a transactional id all of it is a part of transactions; else batches have the sequences of an idempotent producer,
and records of own topics those of another one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from broker_cy.admin import AdminClient
from broker_cy.admin.caller import Caller
from broker_cy.admin.coordinators import Coordinators, CoordinatorType
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.produce import Appended, Producer
from broker_cy.admin.transactional import TransactionalProducer
from broker_cy.client.errors import problem_of
from broker_cy.client.transaction import PRODUCE_BY_NAME, PRODUCE_V1, PRODUCE_V2, V2, Batch, ProducerCore, State
from broker_cy.client.transaction_errors import code_of
from broker_cy.wire.records import Record

Identity = tuple[int, int]
PRODUCE_FIRST, PRODUCE_LAST = 3, 13
"""Versions of Produce that `produce_body` writes."""


class Versions(NamedTuple):
    """The versions in which a batch may be sent."""

    at_least: int
    at_most: int


class BatchProducer(Protocol):
    """The calls of the host. Each raises ClientError."""

    transactional_id: str | None

    async def initialize(self) -> Identity: ...
    async def begin(self) -> Identity: ...
    async def enlist(self, partitions: Iterable[TopicPartition]) -> None: ...
    async def send_batch(self, partition: TopicPartition, records: Sequence[Record]) -> Appended: ...
    async def end(self, *, commit: bool) -> None: ...
    def spoil(self) -> None: ...
    def versions(self, *, has_topic_id: bool) -> Versions: ...


class TransactionalBatches(TransactionalProducer):
    """Batches in transactions."""

    def __init__(self, client: AdminClient, transactional_id: str, timeout_ms: int) -> None:
        caller = client.caller
        super().__init__(
            caller,
            Coordinators(caller.metadata, CoordinatorType.GROUP),
            Coordinators(caller.metadata, CoordinatorType.TRANSACTION),
            transactional_id,
            timeout_ms=timeout_ms,
        )
        self.transactional_id: str | None = transactional_id

    # Callers of these two want to know the producer.

    async def initialize(self, *, continues: bool = False) -> Identity:  # type: ignore[override]
        await super().initialize(continues=continues)
        return self._core.identity

    async def begin(self) -> Identity:  # type: ignore[override]
        await super().begin()
        return self._core.identity

    async def enlist(self, partitions: Iterable[TopicPartition]) -> None:
        """Add partitions to the transaction before their first batch."""
        async with self._starting:
            request = self._core.add_partitions(partitions)
            self._core.sends_itself()
            if request is not None:
                await self._carry_out(request, self._caller.deadline())

    def spoil(self) -> None:
        """Note that the sequences are unknown: the next transaction has another epoch."""
        self._core.lost(Batch(TopicPartition("", 0), *self._core.identity, 0, transactional=True))

    async def end(self, *, commit: bool) -> None:
        await self._end(commit=commit)

    def versions(self, *, has_topic_id: bool) -> Versions:
        if self._core.version >= V2:
            return Versions(PRODUCE_V2, PRODUCE_LAST if has_topic_id else PRODUCE_BY_NAME)
        return Versions(PRODUCE_FIRST, PRODUCE_V1)


class IdempotentBatches(Producer):
    """Batches without transactions."""

    def __init__(self, caller: Caller) -> None:
        super().__init__(caller)
        self.transactional_id: str | None = None
        self._of_batches = ProducerCore()

    async def initialize(self) -> Identity:
        core = self._of_batches
        if core.state is not State.UNINITIALIZED:
            core.restart()
        request = core.initialize()
        answer = await self._caller.ask(
            request.message, request.answer, lambda got: problem_of(code_of(request.api, got))
        )
        core.take(request, answer)
        return core.identity

    async def begin(self) -> Identity:
        raise AssertionError("without a transactional id there are no transactions")

    async def enlist(self, partitions: Iterable[TopicPartition]) -> None:
        """Nothing is to be done."""

    def spoil(self) -> None:
        """The flow gets another producer id itself."""

    async def end(self, *, commit: bool) -> None:
        raise AssertionError("without a transactional id there are no transactions")

    def versions(self, *, has_topic_id: bool) -> Versions:
        return Versions(PRODUCE_FIRST, PRODUCE_LAST if has_topic_id else PRODUCE_BY_NAME)
