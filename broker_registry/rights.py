"""The right to append to the topic: whose instance has it, and how it appends.

Either the writer that took the transactional id last (any number of instances write in turns), or the instance that the
group of Confluent's registry elected. The second appends without transactions: Confluent's registry reads records of
transactions that were aborted too, and would keep what no instance confirmed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from broker_cy.admin import AdminClient
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.produce import Appended
from broker_cy.admin.transactional import TransactionalProducer
from broker_cy.client.errors import ClientError
from broker_cy.client.transaction import WrongState
from broker_cy.core.errors import ErrorCode
from broker_cy.wire.records import Record
from broker_registry.election import Election, NotLeader

TRANSACTION_MS: Final = 10_000
"""After the death of a writer, readers see no newer records for this long, unless another one takes the right. It is
shorter if transaction.max.timeout.ms of the brokers is.
"""


class Right(Protocol):
    """`append`, `commit` and `abort` raise ClientError, and WrongState if the right was lost."""

    def check(self) -> None:
        """Raise NotLeader if this instance cannot take the right."""

    async def take(self) -> None:
        """Take the right. Records of earlier writers can be read then, to the end of the topic."""

    async def append(self, records: Sequence[Record]) -> Appended:
        """Append records together; they are readable after `commit`."""

    async def commit(self) -> None: ...

    async def abort(self) -> None: ...


def transactional_id(topic: str) -> str:
    """Return the transactional id of the writers of a topic."""
    return f"schema-registry-{topic}"


class FencingRight:
    """The right of the last one that took the transactional id."""

    def __init__(self, client: AdminClient, topic: str) -> None:
        self._client, self._partition = client, TopicPartition(topic, 0)
        self._timeout_ms = TRANSACTION_MS
        self._producer: TransactionalProducer | None = None

    def check(self) -> None:
        """Each instance may take it."""

    async def take(self) -> None:
        producer = await self._begun()
        await producer.abort()
        self._producer = producer

    async def _begun(self) -> TransactionalProducer:
        """Return a producer with an open transaction. The timeout is halved until the brokers accept it, because
        reading their bound needs a permission of its own.
        """
        name = transactional_id(self._partition.topic)
        while True:
            producer = self._client.transactional_producer(name, timeout_ms=self._timeout_ms)
            try:
                await producer.begin()
            except ClientError as error:
                if error.code is not ErrorCode.INVALID_TRANSACTION_TIMEOUT or self._timeout_ms == 1:
                    raise
                self._timeout_ms //= 2
            else:
                return producer

    async def append(self, records: Sequence[Record]) -> Appended:
        assert self._producer is not None
        await self._producer.begin()
        return await self._producer.send_batch(self._partition, records)

    async def commit(self) -> None:
        assert self._producer is not None
        await self._producer.commit()

    async def abort(self) -> None:
        assert self._producer is not None
        await self._producer.abort()


class ElectedRight:
    """The right of the leader of the group, as long as its election holds."""

    def __init__(self, client: AdminClient, topic: str, election: Election) -> None:
        self._producer = client.records.producer()
        self._partition = TopicPartition(topic, 0)
        self._election = election
        self._epoch: tuple[int, int] | None = None

    def check(self) -> None:
        if not self._election.leads:
            raise NotLeader

    async def take(self) -> None:
        self.check()
        self._epoch = self._election.epoch

    async def append(self, records: Sequence[Record]) -> Appended:
        if not self._election.leads or self._election.epoch != self._epoch:
            raise WrongState("another election was held")
        return await self._producer.send_batch(self._partition, records)

    async def commit(self) -> None:
        """Nothing is open."""

    async def abort(self) -> None:
        """Nothing is open."""
