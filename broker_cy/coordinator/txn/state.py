"""The state of one transactional id, and its transitions, which are Kafka's.

A `Transaction` is immutable; each transition creates another one, and one record of `__transaction_state`.
"""

from __future__ import annotations

from dataclasses import fields, replace
from enum import IntEnum
from typing import Any, Final

from broker_cy.core.classes import NamedTuple, dataclass

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
# No producer ever gets this epoch: the coordinator uses it to fence the last one.
EPOCH_MAX: Final = 32767
# The first transaction.version that bumps the epoch at each end of a transaction (KIP-890).
VERSION_EPOCH_BUMP: Final = 2
# The timeout of a transaction that waits for another system's decision (KIP-939): none.
TIMEOUT_NEVER_MS: Final = 2147483647

TopicPartition = tuple[str, int]


class TxnState(IntEnum):
    """Numbers are those of the records."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    """Never in the log of this broker; Kafka's name for a transactional id that is being expired."""
    PREPARE_EPOCH_FENCE = 7
    """Never in a log; Kafka's name for an ongoing transaction whose producer is being fenced."""

    @property
    def label(self) -> str:
        """The name that admins see and filter by."""
        return "".join(word.capitalize() for word in self.name.split("_"))

    @property
    def is_prepared(self) -> bool:
        """Decided, and markers are still to be written."""
        return self in (TxnState.PREPARE_COMMIT, TxnState.PREPARE_ABORT)

    @property
    def is_complete(self) -> bool:
        return self in (TxnState.COMPLETE_COMMIT, TxnState.COMPLETE_ABORT)


BY_LABEL: Final = {state.label: state for state in TxnState}


@dataclass(frozen=True, slots=True)
class Transaction:
    """The last or current transaction of a transactional id, and its producer.

    `last_producer_epoch` is the epoch before the last bump if a producer that repeats its request has to receive the
    same response, otherwise -1; records do not contain it, so a restart loses it (as in Kafka). Times are of the wall
    clock.
    """

    transactional_id: str
    producer_id: int
    timeout_ms: int
    last_update_ms: int
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    """The producer id after the end of this transaction if its epochs are exhausted; otherwise -1."""
    producer_epoch: int = NO_PRODUCER_EPOCH
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    state: TxnState = TxnState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    start_ms: int = -1
    client_version: int = 0
    """The transaction.version that the producer spoke when it last changed the state."""

    @property
    def epoch_exhausted(self) -> bool:
        """Whether the next bump must use another producer id, so that an epoch for fencing always remains."""
        return self.producer_epoch >= EPOCH_MAX - 1

    def to(self, state: TxnState, now_ms: int, **changes: Any) -> Transaction:
        """The transaction after a change. Each notes the producer id before it, as Kafka does."""
        # As dataclasses.replace, which inspects the fields at each call; a request creates one or two of these.
        values = {name: getattr(self, name) for name in _FIELDS}
        values["previous_producer_id"] = self.producer_id
        values["state"], values["last_update_ms"] = state, now_ms
        values.update(changes)
        return Transaction(**values)

    # ---- the changes, named after the records' states ----

    def initialized(self, epoch: int, last_epoch: int, timeout_ms: int, now_ms: int, **changes: Any) -> Transaction:
        """A producer begins, or begins again, with `epoch`."""
        return self.to(
            TxnState.EMPTY,
            now_ms,
            producer_epoch=epoch,
            last_producer_epoch=last_epoch,
            timeout_ms=timeout_ms,
            partitions=frozenset(),
            start_ms=-1,
            **changes,
        )

    def with_partitions(self, added: frozenset[TopicPartition], client_version: int, now_ms: int) -> Transaction:
        """The transaction starts with these partitions, or continues with them in addition to its own."""
        return self.to(
            TxnState.ONGOING,
            now_ms,
            partitions=self.partitions | added,
            start_ms=self.start_ms if self.state is TxnState.ONGOING else now_ms,
            client_version=client_version,
        )

    def ended(
        self, state: TxnState, client_version: int, now_ms: int, *, next_producer_id: int = NO_PRODUCER_ID
    ) -> Transaction:
        """The end is decided: from transaction.version 2 on with the next epoch, which the markers carry.

        A transaction aborted before it had partitions (KIP-890) starts now.
        """
        changes: dict[str, Any] = {}
        if client_version >= VERSION_EPOCH_BUMP:
            # Kafka allows an abort even after a defect has used up all epochs.
            changes["producer_epoch"] = min(self.producer_epoch + 1, EPOCH_MAX)
            changes["last_producer_epoch"] = self.producer_epoch
        return self.to(
            state,
            now_ms,
            next_producer_id=next_producer_id,
            client_version=client_version,
            start_ms=self.start_ms if self.state is TxnState.ONGOING else now_ms,
            **changes,
        )

    def fenced(self) -> Transaction:
        """With the next epoch, which no producer gets; for `ended` with a transaction.version below 2."""
        return replace(
            self,
            producer_epoch=min(self.producer_epoch + 1, EPOCH_MAX),
            last_producer_epoch=NO_PRODUCER_EPOCH,
        )

    def completed(self, now_ms: int) -> Transaction:
        """All markers are written."""
        changes: dict[str, Any] = {}
        if self.client_version >= VERSION_EPOCH_BUMP and self.next_producer_id != NO_PRODUCER_ID:
            changes = {"producer_id": self.next_producer_id, "producer_epoch": 0}
        state = TxnState.COMPLETE_COMMIT if self.state is TxnState.PREPARE_COMMIT else TxnState.COMPLETE_ABORT
        return self.to(state, now_ms, next_producer_id=NO_PRODUCER_ID, partitions=frozenset(), **changes)


_FIELDS: Final = tuple(each.name for each in fields(Transaction))


class ProducerIdAndEpoch(NamedTuple):
    """The identity that a producer claims."""

    producer_id: int
    epoch: int


class Markers(NamedTuple):
    """Markers that are to be written for one transaction."""

    number: int
    """Number of their ending."""
    transactional_id: str
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    commit: bool
    partitions: tuple[TopicPartition, ...]
    transaction_version: int


@dataclass(slots=True)
class Ending:
    """A transaction that is being ended: the partitions that have no marker yet."""

    number: int
    remaining: set[TopicPartition]
    failures: int = 0
    """Number of consecutive failures."""
    under_way: bool = False
    """Markers, or the last record, are being written."""
    fenced: bool = False
    """Another coordinator is responsible for the producer: no retry follows."""
