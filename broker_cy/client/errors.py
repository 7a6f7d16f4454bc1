"""The exception of a call to a broker, which has broker, API and reason in fields."""

from __future__ import annotations

import os
from enum import Enum

from broker_cy.core.classes import dataclass
from broker_cy.core.errors import ErrorCode


class Failure(Enum):
    """The kind of failure that an ClientError reports."""

    REFUSED = "refused"  # the broker answered with an error code
    UNREACHABLE = "unreachable"  # no connection, or it broke
    TIMED_OUT = "timed out"  # the deadline of the call passed
    UNSUPPORTED = "unsupported"  # the broker lacks the API, or the version with the field that is needed
    MALFORMED = "malformed"  # the answer does not follow the protocol
    INVALID = "invalid"  # the caller's own value; nothing was sent


class ClientError(Exception):
    """A call failed.

    `broker` is "1 (127.0.0.1:9092)", an address if its id is unknown, or empty if no broker got a request; `api` is
    Kafka's name of the request; `code` is the broker's error code, None if no code was the reason; `what` names
    the topic, partition, group or setting concerned; `reason` is a sentence; `records` are the indices of
    records of a batch that the broker refused, if it tells them (KIP-467).
    """

    def __init__(
        self,
        failure: Failure,
        reason: str,
        *,
        broker: str = "",
        api: str = "",
        code: ErrorCode | None = None,
        what: str = "",
        records: tuple[int, ...] = (),
    ) -> None:
        super().__init__(reason)
        self.failure = failure
        self.reason = reason
        self.broker = broker
        self.api = api
        self.code = code
        self.what = what
        self.records = records

    @property
    def retriable(self) -> bool:
        """Return whether the same call may succeed later without any change by the user."""
        if self.failure is Failure.REFUSED:
            return self.code is not None and self.code.retriable
        return self.failure in (Failure.UNREACHABLE, Failure.TIMED_OUT)

    def __str__(self) -> str:
        place = ", ".join(filter(None, (self.api, f"broker {self.broker}" if self.broker else "")))
        parts = [place, self.what, self.code.name if self.code is not None else "", self.reason]
        return ": ".join(part for part in parts if part)

    def about(self, what: str) -> ClientError:
        """The same failure, reported about `what`."""
        return ClientError(
            self.failure,
            self.reason,
            broker=self.broker,
            api=self.api,
            code=self.code,
            what=what or self.what,
            records=self.records,
        )


def network_reason(error: OSError) -> str:
    """Return the reason that the operating system gave, in the few words of all programs."""
    if isinstance(error, ConnectionRefusedError):
        return "connection refused: no process listens there"
    reason = error.strerror
    if error.errno is not None and (reason or "").startswith("Connect call failed"):
        # The text of asyncio has the address instead of the reason.
        reason = os.strerror(error.errno)
    return reason[0].lower() + reason[1:] if reason else str(error) or type(error).__name__


@dataclass(frozen=True, slots=True)
class Problem:
    """An error code inside an answer, before it is known which broker and API it came from."""

    code: ErrorCode
    message: str = ""
    records: tuple[int, ...] = ()


def problem_of(code: int, message: str | None = None) -> Problem | None:
    """The problem that `code` stands for; None for no error. A code of a newer version is UNKNOWN_SERVER_ERROR."""
    if code == 0:
        return None
    found = ErrorCode(code)
    if found != code:
        return Problem(found, f"error code {code}, which this version does not know. {message or ''}")
    return Problem(found, message or "")


# Messages for codes that the broker sends without a message.
EXPLANATIONS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "the topic or partition does not exist",
    ErrorCode.UNKNOWN_TOPIC_ID: "no topic has this id",
    ErrorCode.TOPIC_ALREADY_EXISTS: "the topic already exists",
    ErrorCode.NOT_LEADER_OR_FOLLOWER: "the broker does not lead the partition",
    ErrorCode.LEADER_NOT_AVAILABLE: "the partition has no leader now",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "the coordinator is not available now",
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: "the coordinator is still loading",
    ErrorCode.NOT_COORDINATOR: "the broker is not the coordinator",
    ErrorCode.OFFSET_OUT_OF_RANGE: "the offset is outside of the log",
    ErrorCode.NON_EMPTY_GROUP: "the group has members; stop them first",
    ErrorCode.GROUP_ID_NOT_FOUND: "the group does not exist",
    ErrorCode.UNKNOWN_MEMBER_ID: "the group has members that own these offsets; stop them first",
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: "the group is of another type, or its members assign partitions by another "
    "protocol",
    ErrorCode.REBALANCE_IN_PROGRESS: "the group is rebalancing",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "the group is subscribed to the topic; stop its members first",
    ErrorCode.INVALID_GROUP_ID: "the group id is not allowed",
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: "the connection needs a login that is not one by a token",
    ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED: "the broker has no delegation.token.secret.key",
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: "the transactional id does not exist",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "the topic name is not allowed",
    ErrorCode.MESSAGE_TOO_LARGE: "a record is larger than max.message.bytes allows",
    ErrorCode.POLICY_VIOLATION: "the topic's settings do not allow it",
    ErrorCode.UNSUPPORTED_VERSION: "the broker does not support this",
}


def refused(problem: Problem, broker: str, api: str, what: str = "") -> ClientError:
    """The ClientError of an error code in an answer."""
    reason = problem.message or EXPLANATIONS.get(problem.code, "")
    failure = Failure.UNSUPPORTED if problem.code is ErrorCode.UNSUPPORTED_VERSION else Failure.REFUSED
    return ClientError(failure, reason, broker=broker, api=api, code=problem.code, what=what, records=problem.records)
