"""The records of `__transaction_state`: TransactionLogKey and TransactionLogValue, versions 0 and 1."""

from __future__ import annotations

import struct
from typing import Final

from broker_cy.coordinator.step import Record
from broker_cy.coordinator.txn.state import TopicPartition, Transaction, TxnState
from broker_cy.core.errors import WireError
from broker_cy.core.text import STRING_BYTES_MAX
from broker_cy.wire import codec, messages

KEY_TYPE: Final = 0
VALUE_VERSION_MAX: Final = 1


def key_type(key: bytes) -> int:
    """The type of a record's key. Raises WireError if it is shorter than a type."""
    if len(key) < 2:
        raise WireError(f"a key of {len(key)} bytes")
    return int.from_bytes(key[:2], "big", signed=True)


def id_of_key(key: bytes) -> str:
    """The transactional id of a key of KEY_TYPE. Raises WireError if it is malformed."""
    return codec.decode(messages.TransactionLogKey, 0, memoryview(key)[2:]).transactional_id


def tombstone(transactional_id: str) -> Record:
    return Record(_key(transactional_id), None)


def record(transaction: Transaction, transaction_version: int) -> Record:
    """The record of a transaction. `transaction_version` is that of the cluster: from 1 on the value has tagged
    fields.
    """
    value = messages.TransactionLogValue(
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=int(transaction.state),
        transaction_partitions=None if transaction.state is TxnState.EMPTY else _topics(transaction.partitions),
        transaction_last_update_timestamp_ms=transaction.last_update_ms,
        transaction_start_timestamp_ms=transaction.start_ms,
    )
    version = 1 if transaction_version >= 1 else 0
    if version:
        value.previous_producer_id = transaction.previous_producer_id
        value.next_producer_id = transaction.next_producer_id
        value.client_transaction_version = transaction.client_version
    return Record(_key(transaction.transactional_id), codec.encode_versioned(value, version))


def decode_value(transactional_id: str, value: bytes) -> Transaction | None:
    """The transaction in a record's value; None if its version belongs to a newer Kafka. Raises WireError if it is
    malformed or has a state that no record can have.
    """
    if len(value) < 2:
        raise WireError(f"a value of {len(value)} bytes for transactional id {transactional_id!r}")
    if not 0 <= int.from_bytes(value[:2], "big", signed=True) <= VALUE_VERSION_MAX:
        return None
    found, _ = codec.decode_versioned(messages.TransactionLogValue, value)
    try:
        state = TxnState(found.transaction_status)
    except ValueError:
        raise WireError(
            f"transactional id {transactional_id!r} has the state {found.transaction_status}, which is none of 0 to 7"
        ) from None
    partitions: frozenset[TopicPartition] = frozenset()
    if state is not TxnState.EMPTY:
        if found.transaction_partitions is None:
            raise WireError(f"transactional id {transactional_id!r} is {state.label} and has no list of partitions")
        partitions = frozenset(
            (topic.topic, index) for topic in found.transaction_partitions for index in topic.partition_ids
        )
    return Transaction(
        transactional_id=transactional_id,
        producer_id=found.producer_id,
        previous_producer_id=found.previous_producer_id,
        next_producer_id=found.next_producer_id,
        producer_epoch=found.producer_epoch,
        timeout_ms=found.transaction_timeout_ms,
        state=state,
        partitions=partitions,
        start_ms=found.transaction_start_timestamp_ms,
        last_update_ms=found.transaction_last_update_timestamp_ms,
        client_version=found.client_transaction_version,
    )


def _key(transactional_id: str) -> bytes:
    # TransactionLogKey version 0 is the id as STRING.
    data = transactional_id.encode()
    if len(data) > STRING_BYTES_MAX:
        raise WireError(f"a transactional id of {len(data)} bytes")
    return struct.pack(">hh", KEY_TYPE, len(data)) + data


def _topics(partitions: frozenset[TopicPartition]) -> list[messages.TransactionLogValue.PartitionsSchema]:
    by_topic: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        by_topic.setdefault(topic, []).append(index)
    return [
        messages.TransactionLogValue.PartitionsSchema(topic=topic, partition_ids=indexes)
        for topic, indexes in by_topic.items()
    ]
