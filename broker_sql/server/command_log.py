"""The command topic: statements are appended in a transaction, and every server of the service id reads all of them.

To append, a server takes the transactional id of the service (which fences the writer before it), reads the topic to
its end, checks the statement against the state that it has then, appends, and waits until it has read its own record.
So a statement is checked against exactly the records before it, whatever server it came to.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final

from broker_cy.admin import AdminClient
from broker_cy.admin.fetched import Chunk
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.topic_log import DELETE, LogSettings, Loss, TopicLog
from broker_cy.admin.topics import NewTopic
from broker_cy.admin.transactional import TransactionalProducer
from broker_cy.client.errors import ClientError, Failure
from broker_cy.client.transaction import WrongState
from broker_cy.core.errors import ErrorCode
from broker_cy.wire.records import Record
from broker_sql.server.commands import BadCommand, Command, parse_command

ATTEMPTS: Final = 10
"""The bound of tries of one statement, while other servers write at the same moment."""
_FENCED: Final = (
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.INVALID_TXN_STATE,
)

_LOG = logging.getLogger(__name__)

Take = Callable[[Command], None]
TakeBad = Callable[[int, str, str], None]


class CommandLog:
    """`async with CommandLog(...)`: at the start of the block `take` has had every command.

    `take_bad` gets the offset, the key and the reason of each record that is no command.
    """

    def __init__(
        self, client: AdminClient, topic: str, service_id: str, replicas: int, take: Take, take_bad: TakeBad
    ) -> None:
        self._client = client
        self.topic = topic
        self._service_id = service_id
        self._take_command, self._take_bad = take, take_bad
        create = NewTopic(topic, 1, replicas)
        settings = LogSettings(create=create, on_loss=Loss.WARN, warn=_LOG.warning, policy=DELETE)
        self._log: TopicLog = client.topic_log(topic, self._take, settings)
        self._producer: TransactionalProducer | None = None
        self._writing = asyncio.Lock()

    async def __aenter__(self) -> CommandLog:
        await self._log.__aenter__()
        if (partitions := len(self._log.positions)) != 1:
            await self._log.close()
            # The order of records in several partitions is not known, and so neither is the state.
            reason = f"the topic has {partitions} partitions; a command topic has one"
            raise ClientError(Failure.REFUSED, reason, what=f"topic {self.topic}")
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._log.close()

    @property
    def is_following(self) -> bool:
        return self._log.failure is None

    @property
    def end(self) -> int:
        """The offset of the next record; all records before it were taken."""
        return next(iter(self._log.positions.values()))

    async def read_to(self, end: int) -> None:
        """Wait until all commands below this offset were taken. Raises ClientError."""
        await self._log.read_to(end)

    def _take(self, chunk: Chunk) -> None:
        for each in chunk.records:
            try:
                command = parse_command(each.key, each.value, each.offset)
            except BadCommand as error:
                key = (each.key or b"").decode(errors="replace")
                self._take_bad(each.offset, key, str(error))
            else:
                self._take_command(command)

    async def write(self, make: Callable[[int], Command]) -> int:
        """Append the command that `make` returns for the offset it will have, and wait until it was taken; returns that
        offset. `make` is called when all commands before it were taken; what it raises ends the call. Raises
        ClientError.
        """
        async with self._writing:
            for attempt in range(1, ATTEMPTS + 1):
                try:
                    return await self._write(make)
                except WrongState:
                    self._producer = None
                except ClientError as error:
                    self._producer = None
                    if error.code not in _FENCED or attempt == ATTEMPTS:
                        raise
                    _LOG.info("another server writes to %s: %s", self.topic, error)
                await asyncio.sleep(0.01 * attempt)
            reason = f"other servers wrote first in each of {ATTEMPTS} attempts"
            raise ClientError(Failure.REFUSED, reason, what=f"topic {self.topic}")

    async def _write(self, make: Callable[[int], Command]) -> int:
        producer = self._producer = self._client.transactional_producer(self._service_id)
        await producer.initialize()
        await self._log.read_to_end()
        command = make(self.end)
        await producer.begin()
        record = Record(timestamp=time.time_ns() // 1_000_000, key=command.key(), value=command.value())
        try:
            appended = await producer.send_batch(TopicPartition(self.topic, 0), [record])
        except BaseException:
            await self._abort(producer)
            raise
        await producer.commit()
        assert appended.base_offset is not None
        await self._log.read_to(appended.base_offset + 1)
        return appended.base_offset

    @staticmethod
    async def _abort(producer: TransactionalProducer) -> None:
        try:
            await producer.abort()
        except (ClientError, WrongState) as error:
            _LOG.info("the transaction of a statement is open until its time ends: %s", error)
