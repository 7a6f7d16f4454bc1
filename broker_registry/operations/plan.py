"""The result of an operation, and the ids that it may give.

Plans of one transaction are computed from the same state. `writes` and `reads` name the parts of the state that a plan
changes and stands on; two plans whose parts meet are not in one transaction. The names are those of `subject_part`,
`hash_part` and SETTINGS.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

from broker_registry.checks import Check
from broker_registry.store.keys import NUMBER_MAX
from broker_registry.store.state import State

T = TypeVar("T")

SETTINGS: Final = "settings"
Record = tuple[bytes, bytes | None]
"""Key and value of a record; None deletes."""


@dataclass(frozen=True, slots=True)
class Plan(Generic[T]):
    """See the module. `is_exclusive`: no other plan may be in the transaction."""

    reply: T
    records: Sequence[Record] = ()
    writes: frozenset[str] = frozenset()
    reads: frozenset[str] = frozenset({SETTINGS})
    is_exclusive: bool = False


class Ids:
    """The ids that the plans of one transaction give, behind those of the state."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._last: dict[str, int] = {}

    def next(self, context: str) -> int:
        """Return an id that no schema of the context has. Raises OverflowError if there is none."""
        found = max(self._state.max_id(context), self._last.get(context, 0)) + 1
        if found > NUMBER_MAX:
            raise OverflowError(f"the context {context} has no more ids: the greatest is {NUMBER_MAX:,}")
        self._last[context] = found
        return found

    def copy(self) -> Ids:
        other = Ids(self._state)
        other._last = dict(self._last)
        return other


Steps = Generator[Check, Any, T]
Operation = Callable[[State, Ids], Plan[T] | Steps[Plan[T]]]


@dataclass(slots=True)
class Claims:
    """The parts that the plans of one transaction have claimed."""

    writes: set[str] = field(default_factory=set)
    reads: set[str] = field(default_factory=set)
    is_exclusive: bool = False
    plans: int = 0

    def take(self, plan: Plan[Any]) -> bool:
        """Return whether the plan may join; if so, its parts are claimed."""
        if self.plans and (self.is_exclusive or plan.is_exclusive):
            return False
        if plan.writes & (self.writes | self.reads) or plan.reads & self.writes:
            return False
        self.writes |= plan.writes
        self.reads |= plan.reads
        self.is_exclusive = plan.is_exclusive
        self.plans += 1
        return True


def subject_part(subject: str) -> str:
    return f"subject {subject}"


def hash_part(context: str, md5: bytes) -> str:
    """The part that two registrations of the same new schema share: they must get one id."""
    return f"hash {context} {md5.hex()}"
