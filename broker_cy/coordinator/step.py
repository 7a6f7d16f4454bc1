"""The steps of the coordinators: their records, the answers to their requests, and the places whose committed offset
changes. See `core.step`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Any

from broker_cy.core.classes import NamedTuple, dataclass
from broker_cy.core.errors import ErrorCode
from broker_cy.core.step import Now, Step, Token, Work
from broker_cy.metrics.events import Event

Place = tuple[str, str, int]  # group, topic, partition


class Record(NamedTuple):
    """One record of `__consumer_offsets` or `__transaction_state`; a value of None is a tombstone."""

    key: bytes
    value: bytes | None


class ClientFacts(NamedTuple):
    """The sender of a request: `host` in the form that Kafka stores ("/127.0.0.1"), `version` of the API."""

    client_id: str
    host: str
    version: int


class Answered(NamedTuple):
    """A request is answered `response`, or, if the records cannot be written, `refuse(*about, code)`. `refuse` is a
    function of a module.
    """

    token: Token
    response: Any
    refuse: Callable[..., Any]
    about: tuple[Any, ...] = ()

    def written(self, machine: Any, out: CoordinatorStep, now: Now) -> None:
        out.reply(self.token, self.response)

    def failed(self, machine: Any, out: CoordinatorStep, now: Now, code: ErrorCode) -> None:
        out.reply(self.token, self.refuse(*self.about, append_error(code)))

    def timed_out(self, machine: Any, out: CoordinatorStep, now: Now) -> None:
        self.failed(machine, out, now, ErrorCode.REQUEST_TIMED_OUT)


class OffsetsCommitted(NamedTuple):
    """Readers see other offsets once the records are on disk."""

    places: tuple[Place, ...]

    def written(self, machine: Any, out: GroupStep, now: Now) -> None:
        out.committed += self.places

    def failed(self, machine: Any, out: GroupStep, now: Now, code: ErrorCode) -> None:
        """Nothing was committed."""


class Waiting(NamedTuple):
    """A request that is answered `refuse(*about, code)` if the call that it waits for has no result. `refuse` is a
    function of a module.
    """

    token: Token
    refuse: Callable[..., Any]
    about: tuple[Any, ...] = ()

    def refused(self, code: ErrorCode) -> Any:
        return self.refuse(*self.about, code)

    def written(self, machine: Any, out: CoordinatorStep, now: Now) -> None:
        """The call is being made."""

    def failed(self, machine: Any, out: CoordinatorStep, now: Now, code: ErrorCode) -> None:
        out.reply(self.token, self.refused(append_error(code)))

    def timed_out(self, machine: Any, out: CoordinatorStep, now: Now) -> None:
        self.failed(machine, out, now, ErrorCode.REQUEST_TIMED_OUT)


class Call(NamedTuple):
    """A request to another service of the broker, which the type of `request` (a NamedTuple) selects. When it is
    answered, the operation `then(machine, step, *about, result, now)` runs; `result` is the answer, or a CallFailed.
    The state has gone on meanwhile: `then` checks the parts of it that the result stands on. A coordinator that is
    closed takes no result: the request that waits for it, if there is one, is refused with NOT_COORDINATOR.
    """

    request: Any
    then: Callable[..., None]
    about: tuple[Any, ...] = ()
    waiting: Waiting | None = None


class CallFailed(NamedTuple):
    """The result of a call that the service refused, or could not make."""

    code: ErrorCode
    reason: str


class CallWhenWritten(NamedTuple):
    """A call that stands on the records of its step: without them, it is not made."""

    call: Call

    def written(self, machine: Any, out: CoordinatorStep, now: Now) -> None:
        out.calls.append(self.call)

    def failed(self, machine: Any, out: CoordinatorStep, now: Now, code: ErrorCode) -> None:
        """Nothing was requested."""


@dataclass(slots=True)
class CoordinatorStep(Step[Record]):
    """`events` are for `__cluster_events`, `work` is for the background, `calls` are made at once. Only deletions are
    not atomic.
    """

    events: list[Event] = field(default_factory=list)
    work: list[Work] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)

    def call_when_written(self, request: Any, then: Callable[..., None], *about: Any) -> None:
        """Make a `Call` once the records are on disk. A new leader makes it again, if the records say that it is to be
        made: it may be lost, and it may be made twice.
        """
        self.then(CallWhenWritten(Call(request, then, about)))

    def call_for(self, waiting: Waiting, request: Any, then: Callable[..., None], *about: Any) -> None:
        """The same for a request that waits for the result. `then` answers it, if that was not done meanwhile."""
        self.then(CallWhenWritten(Call(request, then, about, waiting)))
        self.then(waiting)

    def reply_when_written(self, token: Token, response: Any, refuse: Callable[..., Any], *about: Any) -> None:
        """Answer `response` once the records are on disk, or `refuse(*about, code)` if they cannot be written, where
        `code` is that of `append_error`. The answer of a step without records waits for those of earlier steps: it may
        show what they have changed.
        """
        self.then(Answered(token, response, refuse, about))


@dataclass(slots=True)
class GroupStep(CoordinatorStep):
    """`committed` are the places whose committed offset is another one from now on."""

    committed: list[Place] = field(default_factory=list)


# The error code of the group APIs for each error of an append, as Kafka maps them; other codes are returned unchanged.
_APPEND_ERRORS: dict[ErrorCode, ErrorCode] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    # The transaction coordinator could not be reached: clients that do not know this error repeat the request.
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


def append_error(code: ErrorCode) -> ErrorCode:
    """The code to answer with where appending failed with `code`."""
    return _APPEND_ERRORS.get(code, code)
