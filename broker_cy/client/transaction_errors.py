"""The verdict on each error that a broker answers to the requests of an idempotent or transactional producer: which are
retriable, which abort a transaction, and which end the producer. The table follows Kafka's client.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any, Final

from broker_cy.core.errors import ErrorCode

INIT, ADD_PARTITIONS, ADD_OFFSETS = "InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn"
OFFSETS, PRODUCE, END = "TxnOffsetCommit", "Produce", "EndTxn"
# The pause after CONCURRENT_TRANSACTIONS, as in Kafka's client: the previous transaction ends within milliseconds.
SOON_S: Final = 0.02


class Verdict(enum.Enum):
    """The consequence of an answer for its request and the producer."""

    DONE = "the request was carried out"
    RETRY = "send the same request again after a pause"
    RETRY_SOON = "send the same request again after SOON_S: the coordinator completes the previous transaction"
    FIND = "look up the destination, and send the same request again after a pause"
    ABORTABLE = "abort the transaction; an idempotent producer gets a new id"
    FATAL = "this producer cannot go on; a new one may"


_E, _V = ErrorCode, Verdict
_LEADER_MOVED = {PRODUCE: _V.FIND, "*": _V.RETRY}
# The verdict on each error, by API where it differs. Other errors that Kafka calls retriable are retried; the rest is
# in UNEXPECTED.
VERDICTS: Final[Mapping[ErrorCode, Verdict | Mapping[str, Verdict]]] = {
    _E.COORDINATOR_LOAD_IN_PROGRESS: _V.RETRY,
    _E.COORDINATOR_NOT_AVAILABLE: _V.FIND,
    _E.NOT_COORDINATOR: _V.FIND,
    _E.CONCURRENT_TRANSACTIONS: _V.RETRY_SOON,
    _E.NOT_LEADER_OR_FOLLOWER: _LEADER_MOVED,
    _E.LEADER_NOT_AVAILABLE: _LEADER_MOVED,
    _E.FENCED_LEADER_EPOCH: _LEADER_MOVED,
    _E.UNKNOWN_LEADER_EPOCH: _LEADER_MOVED,
    _E.UNKNOWN_TOPIC_OR_PARTITION: _LEADER_MOVED,
    _E.UNKNOWN_TOPIC_ID: _LEADER_MOVED,
    _E.KAFKA_STORAGE_ERROR: _LEADER_MOVED,
    # An earlier attempt, whose answer was lost, stored the batch.
    _E.DUPLICATE_SEQUENCE_NUMBER: {PRODUCE: _V.DONE},
    # The leader has another state of the producer: a batch was lost, or the coordinator aborted the transaction.
    _E.OUT_OF_ORDER_SEQUENCE_NUMBER: _V.ABORTABLE,
    _E.UNKNOWN_PRODUCER_ID: _V.ABORTABLE,
    _E.INVALID_TXN_STATE: {PRODUCE: _V.ABORTABLE, "*": _V.FATAL},
    # A leader may learn of an abort later than the coordinator; only the coordinator knows that a producer is fenced.
    _E.INVALID_PRODUCER_EPOCH: {PRODUCE: _V.ABORTABLE, "*": _V.FATAL},
    _E.TRANSACTION_ABORTABLE: _V.ABORTABLE,
    # The group went on without the consumer whose offsets these are (KIP-447).
    _E.UNKNOWN_MEMBER_ID: _V.ABORTABLE,
    _E.ILLEGAL_GENERATION: _V.ABORTABLE,
    _E.FENCED_INSTANCE_ID: _V.ABORTABLE,
    _E.TOPIC_AUTHORIZATION_FAILED: _V.ABORTABLE,
    _E.GROUP_AUTHORIZATION_FAILED: _V.ABORTABLE,
    # Another producer has the transactional id, or it expired.
    _E.PRODUCER_FENCED: _V.FATAL,
    _E.INVALID_PRODUCER_ID_MAPPING: _V.FATAL,
    _E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: _V.FATAL,
    _E.CLUSTER_AUTHORIZATION_FAILED: _V.FATAL,
    _E.UNSUPPORTED_VERSION: _V.FATAL,
    _E.UNSUPPORTED_FOR_MESSAGE_FORMAT: _V.FATAL,
}
UNEXPECTED: Final = {PRODUCE: _V.ABORTABLE, "*": _V.FATAL}


def verdict_on(api: str, code: int) -> Verdict:
    """Return the verdict on an error of the answer to a request; DONE for none."""
    if code == ErrorCode.NONE:
        return Verdict.DONE
    found = ErrorCode(code)
    listed = VERDICTS.get(found, {})
    if isinstance(listed, Verdict):
        return listed
    if (verdict := listed.get(api, listed.get("*"))) is not None:
        return verdict
    return Verdict.RETRY if found.retriable else UNEXPECTED.get(api, UNEXPECTED["*"])


def code_of(api: str, answer: Any) -> int:
    """Return the first error of an answer, also of one for several partitions."""
    if api == PRODUCE:
        codes = [part.error_code for topic in answer.responses for part in topic.partition_responses]
    elif api == OFFSETS:
        codes = [part.error_code for topic in answer.topics for part in topic.partitions]
    elif api == ADD_PARTITIONS:
        topics = answer.results_by_topic_v3_and_below
        codes = [part.partition_error_code for topic in topics for part in topic.results_by_partition]
        # A partition that the coordinator did not add because of another one.
        codes = [code for code in codes if code != ErrorCode.OPERATION_NOT_ATTEMPTED] or codes
    else:
        codes = [answer.error_code]
    return next((code for code in codes if code), 0)
