"""An idempotent or transactional producer without input or output (KIP-98, KIP-360, KIP-447, KIP-890).

    UNINITIALIZED -> InitProducerId -> READY -> begin -> IN_TRANSACTION -> EndTxn -> READY ...

A host sends the requests that the methods return, and passes each answer to `take`, whose verdict says what to do:
send the same request again, abort the transaction, or give up. `gave_up` notes a request without a definite answer.
`transaction_errors` has the verdict on each error, and `PREDECESSORS` the states that may precede each state. Without a
transactional id the producer is idempotent only: it has no transactions, and a failed batch makes it get a new id.

In the protocol of transaction.version 1 partitions and groups are added to a transaction by requests of their own. In
that of version 2 (KIP-890) Produce and TxnOffsetCommit add them, and each EndTxn returns the epoch of the next
transaction, so that a late request cannot join it.

One batch of a partition is in flight at a time. A host with several partitions may have one for each.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeVar
from uuid import UUID

from broker_cy.client.consumer_protocol import Partition, by_topic
from broker_cy.client.transaction_errors import (
    ADD_OFFSETS,
    ADD_PARTITIONS,
    END,
    INIT,
    OFFSETS,
    PRODUCE,
    Verdict,
    code_of,
    verdict_on,
)
from broker_cy.core.classes import NamedTuple, dataclass
from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages

# A Partition, or a subclass of it.
P = TypeVar("P", bound=Partition)
NO_PRODUCER: Final = (-1, -1)
TRANSACTION_VERSION: Final = "transaction.version"
V1, V2 = 1, 2
SEQUENCE_MASK = 0x7FFFFFFF
# The newest versions of a client that does not know transaction.version 2, and the first that announce it.
ADD_PARTITIONS_V1, ADD_OFFSETS_V1, TXN_OFFSET_COMMIT_V1, END_TXN_V1, PRODUCE_V1 = 3, 4, 4, 4, 11
TXN_OFFSET_COMMIT_V2, END_TXN_V2, PRODUCE_V2 = 5, 5, 12
# The newest version with names of topics instead of ids.
PRODUCE_BY_NAME = 12
# The longest transaction timeout, for a producer without transactions.
_TIMEOUT_MAX_MS = 0x7FFFFFFF


class State(enum.Enum):
    """See the module. ABORTABLE_ERROR: only `end(commit=False)` is possible; FATAL_ERROR: only `restart`."""

    UNINITIALIZED = enum.auto()
    INITIALIZING = enum.auto()
    READY = enum.auto()
    IN_TRANSACTION = enum.auto()
    COMMITTING = enum.auto()
    ABORTING = enum.auto()
    ABORTABLE_ERROR = enum.auto()
    FATAL_ERROR = enum.auto()


_S = State
# The states from which each state can be reached. A request that is sent again leaves the state as it is.
PREDECESSORS: Final[Mapping[State, frozenset[State]]] = {
    _S.UNINITIALIZED: frozenset(State),
    _S.INITIALIZING: frozenset({_S.UNINITIALIZED, _S.INITIALIZING}),
    _S.READY: frozenset({_S.INITIALIZING, _S.COMMITTING, _S.ABORTING}),
    _S.IN_TRANSACTION: frozenset({_S.READY}),
    _S.COMMITTING: frozenset({_S.IN_TRANSACTION, _S.COMMITTING}),
    _S.ABORTING: frozenset({_S.IN_TRANSACTION, _S.ABORTABLE_ERROR, _S.ABORTING}),
    _S.ABORTABLE_ERROR: frozenset({_S.IN_TRANSACTION, _S.COMMITTING, _S.ABORTABLE_ERROR}),
    _S.FATAL_ERROR: frozenset(State),
}


def client_version(finalized: Iterable[messages.ApiVersionsResponse.FinalizedFeatureKey]) -> int:
    """Return the transaction protocol that a client of these finalized features uses (KIP-890)."""
    levels = {each.name: each.max_version_level for each in finalized}
    return V2 if levels.get(TRANSACTION_VERSION, 0) >= V2 else V1


class To(NamedTuple):
    """The broker that a request goes to: the coordinator of a group or of the transactional id, the leader of a
    partition, or any broker.
    """

    group_id: str | None = None
    transactional_id: str | None = None
    partition: Partition | None = None


class GroupMetadata(NamedTuple):
    """The member of a group whose offsets are committed: a former member is refused (KIP-447)."""

    group_id: str
    generation: int = -1
    member_id: str = ""
    instance_id: str | None = None


class Batch(NamedTuple):
    """The producer's fields of the next batch of a partition: arguments of `encode_batch`."""

    partition: Partition
    producer_id: int
    producer_epoch: int
    base_sequence: int
    transactional: bool

    @property
    def identity(self) -> tuple[int, int]:
        return self.producer_id, self.producer_epoch


@dataclass(frozen=True, slots=True)
class Request:
    """A request, where it goes, the type of its answer, and the versions in which it may be sent."""

    api: str
    message: Any
    answer: type[Any]
    to: To
    identity: tuple[int, int]
    at_least: int = 0
    at_most: int = 32767
    # The batch of Produce, and its number of records.
    batch: Batch | None = None
    records: int = 0

    def __str__(self) -> str:
        return f"{self.api} of producer {self.identity[0]}, epoch {self.identity[1]}"


class WrongState(Exception):
    """The caller wants a step that the state does not allow."""


class ProducerCore:
    """One producer. `identity`: its producer id and epoch."""

    def __init__(self, transactional_id: str | None = None, timeout_ms: int = 60_000) -> None:
        """`timeout_ms`: the coordinator aborts a transaction that takes longer."""
        self.transactional_id, self.timeout_ms = transactional_id, timeout_ms
        self.state = State.UNINITIALIZED
        self.identity = NO_PRODUCER
        # The error of ABORTABLE_ERROR and FATAL_ERROR.
        self.error = ErrorCode.NONE
        self.version = V1
        self._sequences: dict[Partition, int] = {}
        # The partitions and groups of the transaction, and whether a request with any of them was sent.
        self._partitions: set[Partition] = set()
        self._groups: set[str] = set()
        self._is_started = False
        # Whether the outcome of a batch is unknown, so that the next sequence is.
        self._is_uncertain = False

    def __str__(self) -> str:
        error = f": {self.error.name}" if self.error else ""
        return f"producer {self.identity[0]}, epoch {self.identity[1]}, {self.state.name}{error}"

    def _to(self, state: State) -> None:
        if self.state not in PREDECESSORS[state]:
            raise WrongState(f"{self} cannot become {state.name}")
        self.state = state

    # ------------------------------------------------------------------------------------------------ identity

    def restart(self) -> None:
        """Begin again like a process that has just started; InitProducerId then aborts an open transaction."""
        self._to(State.UNINITIALIZED)
        self.identity, self.error = NO_PRODUCER, ErrorCode.NONE
        self._clear()

    def _clear(self) -> None:
        self._sequences, self._is_uncertain = {}, False
        self._partitions, self._groups, self._is_started = set(), set(), False

    def initialize(self) -> Request:
        """Return the request for a producer id, or for the next epoch of the present one (KIP-360)."""
        self._to(State.INITIALIZING)
        producer_id, epoch = self.identity
        request = messages.InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self.timeout_ms if self.transactional_id is not None else _TIMEOUT_MAX_MS,
            producer_id=producer_id,
            producer_epoch=epoch,
        )
        return self._request(INIT, request, messages.InitProducerIdResponse, To(transactional_id=self.transactional_id))

    def _request(
        self, api: str, message: Any, answer: type[Any], to: To, at_least: int = 0, at_most: int = 32767
    ) -> Request:
        return Request(api, message, answer, to, self.identity, at_least, at_most)

    # ------------------------------------------------------------------------------------------------ transactions

    def begin(self, version: int = V1) -> None:
        """Begin a transaction in the protocol of `client_version`; the broker learns of it with the first request."""
        if self.transactional_id is None:
            raise WrongState("a producer without a transactional id has no transactions")
        self._to(State.IN_TRANSACTION)
        self.version = version

    def _check_open(self) -> None:
        if self.state is not State.IN_TRANSACTION:
            raise WrongState(f"{self} has no open transaction")

    def add_partitions(self, partitions: Iterable[Partition]) -> Request | None:
        """Add partitions to the transaction, before a batch is sent to them; None if no request is needed."""
        self._check_open()
        missing = set(partitions) - self._partitions
        if self.version >= V2 or not missing:
            return None
        self._is_started = True
        topic = messages.AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
        request = messages.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id or "",
            v3_and_below_producer_id=self.identity[0],
            v3_and_below_producer_epoch=self.identity[1],
            v3_and_below_topics=[topic(name=name, partitions=numbers) for name, numbers in by_topic(missing)],
        )
        to = To(transactional_id=self.transactional_id)
        return self._request(
            ADD_PARTITIONS, request, messages.AddPartitionsToTxnResponse, to, at_most=ADD_PARTITIONS_V1
        )

    def add_offsets(self, group_id: str) -> Request | None:
        """Add a group to the transaction, before its offsets are sent; None if no request is needed."""
        self._check_open()
        if self.version >= V2 or group_id in self._groups:
            return None
        self._is_started = True
        request = messages.AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id or "",
            producer_id=self.identity[0],
            producer_epoch=self.identity[1],
            group_id=group_id,
        )
        to = To(transactional_id=self.transactional_id)
        return self._request(ADD_OFFSETS, request, messages.AddOffsetsToTxnResponse, to, at_most=ADD_OFFSETS_V1)

    def commit_offsets(
        self, group: GroupMetadata, offsets: Mapping[P, int], metadata: Mapping[P, str] | None = None
    ) -> Request:
        """Return the commit of a group's next offsets, with the texts of `metadata`, as a part of the transaction."""
        self._check_open()
        if self.version < V2 and group.group_id not in self._groups:
            raise WrongState(f"group {group.group_id} is not a part of the transaction yet")
        self._is_started = True
        by_partition: dict[Partition, int] = dict(offsets.items())
        texts: dict[Partition, str] = dict((metadata or {}).items())
        part = messages.TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition
        topic = messages.TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
        request = messages.TxnOffsetCommitRequest(
            transactional_id=self.transactional_id or "",
            group_id=group.group_id,
            producer_id=self.identity[0],
            producer_epoch=self.identity[1],
            generation_id=group.generation,
            member_id=group.member_id,
            group_instance_id=group.instance_id,
            topics=[
                topic(
                    name=name,
                    partitions=[
                        part(
                            partition_index=each,
                            committed_offset=by_partition[name, each],
                            committed_metadata=texts.get((name, each), ""),
                        )
                        for each in numbers
                    ],
                )
                for name, numbers in by_topic(by_partition)
            ],
        )
        at_least, at_most = (TXN_OFFSET_COMMIT_V2, 32767) if self.version >= V2 else (0, TXN_OFFSET_COMMIT_V1)
        to = To(group_id=group.group_id)
        return self._request(OFFSETS, request, messages.TxnOffsetCommitResponse, to, at_least, at_most)

    def end(self, *, commit: bool) -> Request | None:
        """Return the request that ends the transaction; None for one that no broker knows, which has ended then."""
        self._to(State.COMMITTING if commit else State.ABORTING)
        if not self._is_started:
            self._ended()
            return None
        request = messages.EndTxnRequest(
            transactional_id=self.transactional_id or "",
            producer_id=self.identity[0],
            producer_epoch=self.identity[1],
            committed=commit,
        )
        at_least, at_most = (END_TXN_V2, 32767) if self.version >= V2 else (0, END_TXN_V1)
        to = To(transactional_id=self.transactional_id)
        return self._request(END, request, messages.EndTxnResponse, to, at_least, at_most)

    def _ended(self) -> None:
        """The sequences of an aborted transaction may be unknown: then a new epoch begins, with the sequence 0."""
        self._to(State.UNINITIALIZED if self._is_uncertain else State.READY)
        self._partitions, self._groups, self._is_started = set(), set(), False
        self.error = ErrorCode.NONE

    # ------------------------------------------------------------------------------------------------ batches

    def sends_itself(self) -> None:
        """Note that the caller sends batches of the transaction without `batch` and `produce`: it ends with EndTxn."""
        self._check_open()
        self._is_started = True

    def batch(self, partition: Partition) -> Batch:
        """Return the producer's fields of the next batch of a partition."""
        if self.transactional_id is None:
            if self.state is not State.READY:
                raise WrongState(f"{self} has no producer id")
        else:
            self._check_open()
            if self.version < V2 and partition not in self._partitions:
                raise WrongState(f"partition {partition[0]}-{partition[1]} is not a part of the transaction yet")
        sequence = self._sequences.get(partition, 0)
        return Batch(partition, *self.identity, sequence, self.transactional_id is not None)

    def produce(
        self, batch: Batch, records: int, data: bytes, timeout_ms: int, topic_id: UUID | None = None
    ) -> Request:
        """Return the request for an encoded batch. Without `topic_id`, it is sent in a version with names."""
        self._is_started = True
        request = produce_message(
            batch.partition, data, timeout_ms, transactional_id=self.transactional_id, topic_id=topic_id
        )
        at_least, at_most = 0, PRODUCE_BY_NAME if topic_id is None else 32767
        if batch.transactional:
            at_least, at_most = (PRODUCE_V2, at_most) if self.version >= V2 else (0, PRODUCE_V1)
        to, answer = To(partition=batch.partition), messages.ProduceResponse
        return Request(PRODUCE, request, answer, to, batch.identity, at_least, at_most, batch, records)

    # ------------------------------------------------------------------------------------------------ answers

    def take(self, request: Request, answer: Any) -> Verdict:
        """Take an answer; returns its verdict. An answer of another producer id or epoch changes nothing."""
        code = code_of(request.api, answer)
        verdict = verdict_on(request.api, code)
        if request.identity != self.identity:
            return verdict
        if verdict is Verdict.DONE:
            self._carried_out(request, answer)
        elif verdict is Verdict.ABORTABLE:
            self._failed(ErrorCode(code), of_batch=request.batch is not None)
        elif verdict is Verdict.FATAL:
            self._to(State.FATAL_ERROR)
            self.error = ErrorCode(code)
        return verdict

    def gave_up(self, request: Request) -> None:
        """Note that a request is not sent again, although its outcome is unknown. `initialize` and `end` may be called
        again instead.
        """
        if request.identity == self.identity and request.api not in (INIT, END):
            self._failed(ErrorCode.REQUEST_TIMED_OUT, of_batch=request.batch is not None)

    def lost(self, batch: Batch) -> None:
        """Note that a batch is not sent again, although it may have been stored."""
        if batch.identity == self.identity:
            self._failed(ErrorCode.REQUEST_TIMED_OUT, of_batch=True)

    def _carried_out(self, request: Request, answer: Any) -> None:
        if request.api == INIT:
            self._to(State.READY)
            self.identity = answer.producer_id, answer.producer_epoch
            self._clear()
        elif request.api == PRODUCE and request.batch is not None:
            batch = request.batch
            self._sequences[batch.partition] = batch.base_sequence + request.records & SEQUENCE_MASK
        elif request.api == ADD_PARTITIONS:
            topics = request.message.v3_and_below_topics
            self._partitions.update((topic.name, number) for topic in topics for number in topic.partitions)
        elif request.api == ADD_OFFSETS:
            self._groups.add(request.message.group_id)
        elif request.api == END:
            if self.version >= V2 and answer.producer_id >= 0:
                self.identity = answer.producer_id, answer.producer_epoch
                self._sequences, self._is_uncertain = {}, False
            self._ended()

    def _failed(self, code: ErrorCode, *, of_batch: bool) -> None:
        if self.transactional_id is None:
            # The batch may have been stored, so that the next sequence is unknown. A new producer id starts from 0.
            self.restart()
            return
        self._is_uncertain |= of_batch
        if self.state in PREDECESSORS[State.ABORTABLE_ERROR]:
            self._to(State.ABORTABLE_ERROR)
            self.error = code


def produce_message(
    partition: Partition,
    data: bytes,
    timeout_ms: int,
    *,
    acks: int = -1,
    transactional_id: str | None = None,
    topic_id: UUID | None = None,
) -> messages.ProduceRequest:
    """Return a Produce request with one batch."""
    name, number = partition
    part = messages.ProduceRequest.PartitionProduceData(index=number, records=data)
    topic = messages.ProduceRequest.TopicProduceData(name=name, partition_data=[part])
    if topic_id is not None:
        topic.topic_id = topic_id
    return messages.ProduceRequest(
        transactional_id=transactional_id, acks=acks, timeout_ms=timeout_ms, topic_data=[topic]
    )
