"""The answers of the share coordinator about one share partition, with Kafka's messages."""

from __future__ import annotations

from typing import Final

from broker_cy.coordinator.share_state.state import NO_COUNT, StateBatch
from broker_cy.core.classes import NamedTuple
from broker_cy.core.errors import ErrorCode

# Kafka's messages for the codes of coordinators, and of requests about share groups.
MESSAGES: Final = {
    ErrorCode.INVALID_GROUP_ID: "The group id is invalid.",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Topic authorization failed.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Group authorization failed.",
    ErrorCode.UNSUPPORTED_VERSION: "The version of API is not supported.",
    ErrorCode.NON_EMPTY_GROUP: "The group is not empty.",
    ErrorCode.NETWORK_EXCEPTION: "The server disconnected before a response was received.",
    ErrorCode.LEADER_NOT_AVAILABLE: "There is no leader for this topic-partition as we are in the middle of a "
    "leadership election.",
    ErrorCode.UNKNOWN_SERVER_ERROR: "The server experienced an unexpected error when processing the request.",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "This server does not host this topic-partition.",
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: "The coordinator is loading and hence can't process requests.",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "The coordinator is not available.",
    ErrorCode.NOT_COORDINATOR: "This is not the correct coordinator.",
    ErrorCode.FENCED_LEADER_EPOCH: "The leader epoch in the request is older than the epoch on the broker.",
    ErrorCode.FENCED_STATE_EPOCH: "The share coordinator rejected the request because the share-group state epoch did "
    "not match.",
}


class Outcome(NamedTuple):
    """The answer to an initialization, a write or a deletion."""

    code: ErrorCode = ErrorCode.NONE
    message: str | None = None


class StateRead(NamedTuple):
    """The answer to a read. The start offset is -1 if nothing was consumed yet; 0 beside an error, as in Kafka."""

    code: ErrorCode = ErrorCode.NONE
    message: str | None = None
    state_epoch: int = 0
    start_offset: int = 0
    batches: tuple[StateBatch, ...] = ()


class SummaryRead(NamedTuple):
    """The answer to the read of a summary. The start offset is -1 if nothing was consumed yet, or if the share
    partition is unknown; 0 beside an error, as in Kafka.
    """

    code: ErrorCode = ErrorCode.NONE
    message: str | None = None
    state_epoch: int = 0
    leader_epoch: int = 0
    start_offset: int = 0
    delivery_complete_count: int = NO_COUNT


def message_of(code: ErrorCode) -> str:
    """Kafka's message for an error, or its name."""
    return MESSAGES.get(code, code.name)


def refused_write(code: ErrorCode) -> Outcome:
    return Outcome(code, f"Unable to write share group state: {message_of(code)}")


def refused_initialization(code: ErrorCode) -> Outcome:
    return Outcome(code, f"Unable to initialize share group state: {message_of(code)}")


def refused_deletion(code: ErrorCode) -> Outcome:
    return Outcome(code, f"Unable to delete share group state: {message_of(code)}")


def refused_read(code: ErrorCode) -> StateRead:
    return StateRead(code, f"Unable to read share group state: {message_of(code)}")


def refused_summary(code: ErrorCode) -> SummaryRead:
    return SummaryRead(code, f"Unable to read share group state summary: {message_of(code)}")
