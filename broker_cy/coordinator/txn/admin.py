"""ListTransactions and DescribeTransactions."""

from __future__ import annotations

from collections.abc import Iterable

from broker_cy.coordinator.pattern import Pattern
from broker_cy.coordinator.txn.state import BY_LABEL, Transaction, TxnState
from broker_cy.coordinator.txn.transaction_table import TransactionTable
from broker_cy.core.classes import NamedTuple
from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages


class Filter(NamedTuple):
    """Selects transactional ids; everything by default."""

    states: frozenset[TxnState] | None
    """None for all; empty for none, as where only unknown states are named."""
    producer_ids: frozenset[int]
    duration_ms: int
    """Only transactions that began longer ago; below 0: all. One that never began counts as old, as in Kafka."""
    pattern: Pattern | None

    @classmethod
    def of(cls, request: messages.ListTransactionsRequest) -> tuple[Filter, list[str]]:
        """The filter of a request, and its names of unknown states. Raises PatternError."""
        known = frozenset(BY_LABEL[name] for name in request.state_filters if name in BY_LABEL)
        wanted = Filter(
            known if request.state_filters else None,
            frozenset(request.producer_id_filters),
            request.duration_filter,
            Pattern(request.transactional_id_pattern) if request.transactional_id_pattern else None,
        )
        return wanted, [name for name in dict.fromkeys(request.state_filters) if name not in BY_LABEL]

    def takes(self, transaction: Transaction, wall_ms: int) -> bool:
        if self.producer_ids and transaction.producer_id not in self.producer_ids:
            return False
        if self.states is not None and transaction.state not in self.states:
            return False
        if self.duration_ms >= 0 and wall_ms - transaction.start_ms <= self.duration_ms:
            return False
        return self.pattern is None or self.pattern.matches(transaction.transactional_id)


def list_transactions(
    transactions: Iterable[Transaction], wanted: Filter, wall_ms: int
) -> list[messages.ListTransactionsResponse.TransactionState]:
    return [
        messages.ListTransactionsResponse.TransactionState(
            transactional_id=transaction.transactional_id,
            producer_id=transaction.producer_id,
            transaction_state=transaction.state.label,
        )
        for transaction in transactions
        if wanted.takes(transaction, wall_ms)
    ]


def describe(
    machine: TransactionTable, transactional_id: str
) -> messages.DescribeTransactionsResponse.TransactionState:
    transaction = machine.transactions.get(transactional_id)
    if transaction is None:
        return messages.DescribeTransactionsResponse.TransactionState(
            transactional_id=transactional_id, error_code=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        )
    # Kafka takes partitions out as they get their markers.
    ending = machine.ending.get(transactional_id)
    open_partitions = transaction.partitions if ending is None else ending.remaining
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(open_partitions):
        topics.setdefault(topic, []).append(index)
    return messages.DescribeTransactionsResponse.TransactionState(
        transactional_id=transactional_id,
        transaction_state=transaction.state.label,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_start_time_ms=transaction.start_ms,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        topics=[
            messages.DescribeTransactionsResponse.TopicData(topic=topic, partitions=indexes)
            for topic, indexes in topics.items()
        ],
    )
