"""The arguments and results of a coordinator's operations.

An operation changes the durable state only by records, which the state machine replays immediately, so that the next
operation sees them; they are on disk later. `Step` defines what must be on disk before which answer is sent: `replies`
depend on nothing, and the replies that `written` of the state machine returns depend on the records of the step and on
all earlier ones. If the records cannot be written, `failed` undoes them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple, Protocol, Self, runtime_checkable

from broker_cy.core.errors import ErrorCode
from broker_cy.metrics.events import Event

# Names a request that waits for its answer. Opaque to the coordinator, which hands it back in `Step.replies`.
Token = Any

Place = tuple[str, str, int]  # group, topic, partition


class Now(NamedTuple):
    """One moment on both clocks: `wall_ms` goes into records, `mono_ms` is the clock of timeouts."""

    wall_ms: int
    mono_ms: int


class Record(NamedTuple):
    """One record of `__consumer_offsets`; a value of None is a tombstone."""

    key: bytes
    value: bytes | None


class ClientFacts(NamedTuple):
    """The sender of a request: `host` in the form that Kafka stores ("/127.0.0.1"), `version` of the API."""

    client_id: str
    host: str
    version: int


class Reply(NamedTuple):
    """An answer to one waiting request."""

    token: Token
    response: Any


class Follow(Protocol):
    """The effect of a step whose records are on disk, or failed: a value without references to live state. The machine
    calls one of the two methods with itself and the step that it will return.
    """

    def written(self, machine: Any, out: Any, now: Now) -> None: ...
    def failed(self, machine: Any, out: Any, now: Now, code: ErrorCode) -> None: ...


@runtime_checkable
class Awaited(Protocol):
    """A Follow that requests wait for. The machine calls `timed_out` instead of the other methods if the records are in
    the log, and not committed in time: they may be committed later, or lost.
    """

    def timed_out(self, machine: Any, out: Any, now: Now) -> None: ...


class Before(Protocol):
    """The durable state that a record replaced: a value."""

    def restore(self, machine: Any) -> None:
        """Undo the record. Everything newer is undone before."""


class Unchanged(NamedTuple):
    """A record changed nothing."""

    def restore(self, machine: Any) -> None:
        """Nothing is to be undone."""


UNCHANGED: Final = Unchanged()


class Answered(NamedTuple):
    """A request is answered `response`, or, if the records cannot be written, `refuse(*about, code)`. `refuse` is a
    function of a module.
    """

    token: Token
    response: Any
    refuse: Callable[..., Any]
    about: tuple[Any, ...] = ()

    def written(self, machine: Any, out: Step, now: Now) -> None:
        out.reply(self.token, self.response)

    def failed(self, machine: Any, out: Step, now: Now, code: ErrorCode) -> None:
        out.reply(self.token, self.refuse(*self.about, append_error(code)))

    def timed_out(self, machine: Any, out: Step, now: Now) -> None:
        self.failed(machine, out, now, ErrorCode.REQUEST_TIMED_OUT)


class OffsetsCommitted(NamedTuple):
    """Readers see other offsets once the records are on disk."""

    places: tuple[Place, ...]

    def written(self, machine: Any, out: Step, now: Now) -> None:
        out.committed += self.places

    def failed(self, machine: Any, out: Step, now: Now, code: ErrorCode) -> None:
        """Nothing was committed."""


@dataclass(slots=True)
class Step:
    """Records to append, answers to give, events for `__cluster_events`, and the places whose committed offset is
    another one from now on: a value, which can be printed and compared.

    `atomic` records go into one batch, so that a crash leaves all of them or none; only deletions are not atomic.
    `before` (one for each change of the durable state) and `follows` are for the state machine, whose `written` or
    `failed` the caller calls with the outcome, after `timed_out` if that takes too long.
    """

    records: list[Record] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    committed: list[Place] = field(default_factory=list)
    atomic: bool = True
    before: list[Before] = field(default_factory=list)
    follows: list[Follow] = field(default_factory=list)
    due_ms: int | None = field(default=None, compare=False)
    """When its answers are due (monotonic); None if nothing waits. Set by the caller that writes its records."""
    is_late: bool = field(default=False, compare=False)
    """Its requests were answered before its records were committed."""

    def reply(self, token: Token, response: Any) -> None:
        """Answer whether or not the records are written."""
        self.replies.append(Reply(token, response))

    def then(self, follow: Follow) -> None:
        """Continue with `follow` when the outcome of writing this step's records is known."""
        self.follows.append(follow)

    def reply_when_written(self, token: Token, response: Any, refuse: Callable[..., Any], *about: Any) -> None:
        """Answer `response` once the records are on disk, or `refuse(*about, code)` if they cannot be written, where
        `code` is that of `append_error`. The answer of a step without records waits for those of earlier steps: it may
        show what they have changed.
        """
        self.then(Answered(token, response, refuse, about))

    def is_due(self, now_ms: int) -> bool:
        """Whether its requests have waited for long enough."""
        return self.due_ms is not None and not self.is_late and self.due_ms <= now_ms

    def part(self, begin: int, end: int) -> Self:
        """The records from `begin` up to `end` as a step of their own, of a step that is not atomic; each has its
        `before`. The events after the step belong to its last part.
        """
        follows = self.follows if end == len(self.records) else []
        return replace(self, records=self.records[begin:end], before=self.before[begin:end], follows=follows)


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
