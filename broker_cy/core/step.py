"""The result of an operation of a state machine that lives in a log: of a coordinator, of the controller.

An operation is a pure function of the machine's state, a `Step` that it fills, the parts of its request, and the time.
It changes the durable state only by records, which the machine replays immediately, so that the next operation sees
them; they are on disk later. `Step` defines what must be on disk before which answer is sent: `replies` depend on
nothing, and the replies that `written` of the machine returns depend on the records of the step and on all earlier
ones. If the records cannot be written, `failed` undoes them.

The machine of the metadata quorum is another kind: its log may lose entries that it has appended, so it waits for
events of its disk and of other nodes, and says in which order they must happen (`quorum.step.Output`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field, replace
from typing import Any, Final, Generic, Protocol, Self, TypeVar, runtime_checkable

from broker_cy.core.classes import NamedTuple, dataclass
from broker_cy.core.errors import ErrorCode

# A record of the log.
Rec = TypeVar("Rec")

# Names a request that waits for its answer. Opaque to the machine, which hands it back in `Step.replies`.
Token = Any


class Now(NamedTuple):
    """One moment on both clocks: `wall_ms` goes into records, `mono_ms` is the clock of timeouts."""

    wall_ms: int
    mono_ms: int


class Reply(NamedTuple):
    """An answer to one waiting request."""

    token: Token
    response: Any


class Work(NamedTuple):
    """Work in the background. A worker computes `function(*arguments)`, which share nothing with the machine; then the
    operation `then(machine, step, *about, result, now)` runs. It begins at once, also if the step's records fail later,
    and the state has gone on when it ends: `then` checks the parts of the state that the result stands on.
    """

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    then: Callable[..., None]
    about: tuple[Any, ...] = ()


class WorkFailed(NamedTuple):
    """The result if the function raised an exception."""

    reason: str


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


@dataclass(slots=True)
class Step(Generic[Rec]):
    """Records to append, and answers to give: a value, which can be printed and compared.

    `atomic` records go into one batch, so that a crash leaves all of them or none. `before` (one for each change of the
    durable state) and `follows` are for a machine with `written` and `failed`: the caller calls one of them with the
    outcome, after `timed_out` if that takes too long. A machine whose operations return their reply, and that undoes in
    its own way, uses only the records: the controller does.
    """

    records: list[Rec] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)
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

    def is_due(self, now_ms: int) -> bool:
        """Whether its requests have waited for long enough."""
        return self.due_ms is not None and not self.is_late and self.due_ms <= now_ms

    def part(self, begin: int, end: int) -> Self:
        """The records from `begin` up to `end` as a step of their own, of a step that is not atomic; each has its
        `before`. The events after the step belong to its last part.
        """
        follows = self.follows if end == len(self.records) else []
        return replace(self, records=self.records[begin:end], before=self.before[begin:end], follows=follows)

    def batches(self, records_max: int) -> Iterator[list[Rec]]:
        """The records in batches of at most `records_max`."""
        for start in range(0, len(self.records), records_max):
            yield self.records[start : start + records_max]
