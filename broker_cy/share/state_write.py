"""The states that a share partition lets the share coordinator persist, and its errors."""

from __future__ import annotations

from enum import IntEnum

from broker_cy.core.classes import NamedTuple
from broker_cy.core.errors import ErrorCode


class AcknowledgeType(IntEnum):
    """The verdict of a member on a record; Kafka's ids."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


class StateWrite(NamedTuple):
    """States to persist, in the order of WriteShareGroupState. A batch is (first offset, last offset, delivery count,
    delivery state). A write of a timeout is not undone if it fails.
    """

    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: tuple[tuple[int, int, int, int], ...]
    is_timeout: bool


class AcknowledgeError(ValueError):
    """Acknowledgements of one partition that cannot be applied; none of them was."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


class LoadError(ValueError):
    """Persisted state that no share partition can have."""


_CLIENT_ERRORS = {
    ErrorCode.NOT_COORDINATOR: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.GROUP_ID_NOT_FOUND: ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_STATE_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
}
_FENCING = frozenset(
    (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
)


def client_error(code: ErrorCode) -> ErrorCode:
    """Return the error that a client gets if the share coordinator answers a read or a write with `code`."""
    return _CLIENT_ERRORS.get(code, ErrorCode.UNKNOWN_SERVER_ERROR)


def is_fencing(code: ErrorCode) -> bool:
    """Return whether a client's error means that this node must fence and drop the share partition."""
    return code in _FENCING
