"""A transactional producer on asyncio: the host of `client.transaction`.

It uses the protocol of transaction.version 2 (KIP-890) if the cluster has finalized it, else that of version 1.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress

from broker_cy.admin.caller import Caller
from broker_cy.admin.coordinators import Coordinators
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.produce import Producer
from broker_cy.client.deadline import Deadline
from broker_cy.client.errors import ClientError, Failure, problem_of, refused
from broker_cy.client.pool import Link, Peer
from broker_cy.client.transaction import GroupMetadata, ProducerCore, Request, State, WrongState, client_version
from broker_cy.client.transaction_errors import SOON_S, Verdict, code_of
from broker_cy.wire.compression import Codec

# Kafka's transaction.timeout.ms.
TIMEOUT_MS = 60_000


class TransactionalProducer(Producer):
    """`async with producer.transaction(): await producer.send(...)`: all of it is committed, or nothing.

    One transaction at a time. After ClientError with PRODUCER_FENCED another producer has the transactional id, and
    this one cannot go on.
    """

    def __init__(
        self,
        caller: Caller,
        groups: Coordinators,
        transactions: Coordinators,
        transactional_id: str,
        *,
        timeout_ms: int = TIMEOUT_MS,
        codec: Codec = Codec.NONE,
        level: int | None = None,
    ) -> None:
        super().__init__(caller, codec=codec, level=level)
        self._core = ProducerCore(transactional_id, timeout_ms)
        self._groups, self._transactions = groups, transactions

    @property
    def state(self) -> State:
        return self._core.state

    @property
    def core(self) -> ProducerCore:
        """The state of this producer, for `resume` in another process: then that one continues its transaction. Only
        one of them may be used at a time.
        """
        return self._core

    def resume(self, core: ProducerCore) -> None:
        """Continue as the producer whose `core` this is. Raises ClientError: it has another transactional id."""
        if core.transactional_id != self._transactional_id:
            reason = f"this is the producer of {self._transactional_id}, and the state is of {core.transactional_id}"
            raise ClientError(Failure.INVALID, reason)
        self._core = core

    async def initialize(self, *, continues: bool = False) -> None:
        """Get a new epoch, which fences every other producer with this transactional id and aborts its transaction.
        With `continues`, this one is fenced if another has begun since (KIP-360). Raises ClientError.
        """
        identity = self._core.identity
        self._core.restart()
        if continues:
            self._core.identity = identity
        await self._carry_out(self._core.initialize(), self._caller.deadline())

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """Commit at the end, or abort after an exception. Raises ClientError."""
        await self.begin()
        try:
            yield
            await self.commit()
        except BaseException:
            with suppress(ClientError, WrongState):
                await self.abort()
            raise

    async def begin(self) -> None:
        """Begin a transaction. The first one gets a producer id, which aborts the transaction of a former producer."""
        deadline = self._caller.deadline()
        if self._core.state in (State.UNINITIALIZED, State.INITIALIZING):
            await self._carry_out(self._core.initialize(), deadline)
        link = await self._linked(deadline)
        self._core.begin(client_version(link.api_versions.finalized_features))

    async def commit_offsets(
        self,
        group: GroupMetadata,
        offsets: Mapping[TopicPartition, int],
        metadata: Mapping[TopicPartition, str] | None = None,
    ) -> None:
        """Commit the next offsets of a group, with the texts of `metadata`, as a part of the transaction. Raises
        ClientError.
        """
        deadline = self._caller.deadline()
        request = self._core.add_offsets(group.group_id)
        if request is not None:
            await self._carry_out(request, deadline)
        await self._carry_out(self._core.commit_offsets(group, offsets, metadata), deadline)

    async def commit(self) -> None:
        """Commit the transaction. Raises ClientError; TIMED_OUT and UNREACHABLE leave its outcome open until this call
        is repeated.
        """
        await self._end(commit=True)

    async def abort(self) -> None:
        """Abort the transaction. Raises ClientError."""
        await self._end(commit=False)

    async def _end(self, *, commit: bool) -> None:
        request = self._core.end(commit=commit)
        if request is not None:
            await self._carry_out(request, self._caller.deadline())

    async def _prepare(self, partition: TopicPartition, deadline: Deadline) -> None:
        """Add the partition to the transaction before its first batch."""
        async with self._starting:
            request = self._core.add_partitions([partition])
            if request is not None:
                await self._carry_out(request, deadline)

    @property
    def _transactional_id(self) -> str:
        assert self._core.transactional_id is not None
        return self._core.transactional_id

    async def _linked(self, deadline: Deadline) -> Link:
        """The connection to the coordinator. While it cannot be reached, another broker may take its place."""
        attempt = 1
        while True:
            try:
                peer = await self._locate(self._transactions, self._transactional_id, deadline)
                return await self._caller.pool.link(peer, deadline)
            except ClientError as error:
                if not self._caller.may_retry(error, attempt) or not await deadline.back_off(attempt):
                    raise error.about(error.what or f"transactional id {self._transactional_id}") from None
            self._transactions.forget([self._transactional_id])
            attempt += 1

    async def _locate(self, coordinators: Coordinators, key: str, deadline: Deadline) -> Peer:
        attempt = 1
        while True:
            places, failed = await coordinators.locate([key], deadline)
            for peer in places:
                return peer
            error = failed[key]
            if not self._caller.may_retry(error, attempt) or not await deadline.back_off(attempt):
                raise error
            attempt += 1

    async def _carry_out(self, request: Request, deadline: Deadline) -> None:
        """Send a request to its coordinator until the verdict on the answer is not to retry it. Raises ClientError."""
        group_id = request.to.group_id
        coordinators = self._transactions if group_id is None else self._groups
        key = self._transactional_id if group_id is None else group_id
        attempt = 1
        while True:
            try:
                peer = await self._locate(coordinators, key, deadline)
                answer, _ = await self._caller.pool.ask(
                    peer,
                    request.message,
                    request.answer,
                    deadline,
                    at_least=request.at_least,
                    at_most=request.at_most,
                )
                verdict = self._core.take(request, answer)
                problem = problem_of(code_of(request.api, answer))
                if verdict is Verdict.DONE or problem is None:
                    return
                error = refused(problem, peer.name, request.api, f"transactional id {self._transactional_id}")
            except ClientError as raised:
                error = raised.about(raised.what or f"transactional id {self._transactional_id}")
                verdict = Verdict.FIND if self._caller.may_retry(raised, attempt) else Verdict.ABORTABLE
            if verdict in (Verdict.ABORTABLE, Verdict.FATAL):
                self._core.gave_up(request)
                raise error
            if verdict is Verdict.FIND:
                coordinators.forget([key])
            if verdict is Verdict.RETRY_SOON and deadline.left_s > SOON_S:
                await asyncio.sleep(SOON_S)
            elif not await deadline.back_off(attempt):
                self._core.gave_up(request)
                raise error
            attempt += 1
