"""Notes the accesses of clients, as events, so that a change of ACLs can be tried on past traffic, and unneeded ACLs
can be found.

The journal notes accesses, not the ACLs that decided: the deciding ACL, or the one of a changed set, follows from the
accesses (security.past). Each access is noted once in a period of PERIOD_S and written up to WRITE_S later. In the next
period every access is noted again, also one that connections have in their caches: `on_period` must make them forget
it.
`ROOM` bounds the accesses of a period by kind: a list of all topics takes no room of named accesses, nor do denials.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Final

from broker_cy.metrics.events import Access, Accesses, cut
from broker_cy.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    import asyncio

    from broker_cy.metrics.events import Event

PERIOD_S: Final = 3_600.0
WRITE_S: Final = 10.0
# The limit of one event, which is one record of about 100 KB.
ACCESSES_AN_EVENT: Final = 1_000


class Kind(Enum):
    NAMED = "named"  # allowed
    LISTED = "listed"  # allowed, in a list of all resources
    REFUSED = "refused"


ROOM: Final = {Kind.NAMED: 10_000, Kind.LISTED: 10_000, Kind.REFUSED: 2_000}
# Principal, host, type of the resource, name.
Key = tuple[str, str, int, str]


class AccessJournal:
    """The journal of one node; `note` writes an event."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        note: Callable[[Event], None],
        on_period: Callable[[], None],
        *,
        allow_if_no_acl: bool,
    ) -> None:
        self._loop = loop
        self._note = note
        self._on_period = on_period
        self._allow_if_no_acl = allow_if_no_acl
        # Operations of this period, and those of them that are not written yet, as bits `1 << Operation`.
        self._seen: dict[Key, int] = {}
        self._fresh: dict[Key, int] = {}
        self._room = dict(ROOM)
        self._left_out = 0
        self._writing: asyncio.TimerHandle | None = None
        self._period: asyncio.TimerHandle | None = loop.call_later(PERIOD_S, self._end_period)

    def saw(self, principal: str, host: str, operation: int, resource_type: int, name: str, kind: Kind) -> None:
        """A client has used a right, or was refused it. Cheap if that is known."""
        key = (principal, host, resource_type, name)
        bit = 1 << operation
        seen = self._seen.get(key)
        if seen is None:
            if not self._room[kind]:
                self._left_out += 1
                self._expect()
                return
            self._room[kind] -= 1
            seen = 0
        elif seen & bit:
            return
        self._seen[key] = seen | bit
        self._fresh[key] = self._fresh.get(key, 0) | bit
        self._expect()

    def _expect(self) -> None:
        if self._writing is None and self._period is not None:
            self._writing = self._loop.call_later(WRITE_S, self.write)

    def write(self) -> None:
        """Write the unwritten accesses."""
        if self._writing is not None:
            self._writing.cancel()
            self._writing = None
        found = [_access(key, bits) for key, bits in self._fresh.items()]
        left_out, self._fresh, self._left_out = self._left_out, {}, 0
        for start in range(0, len(found) or (1 if left_out else 0), ACCESSES_AN_EVENT):
            some = found[start : start + ACCESSES_AN_EVENT]
            self._note(Accesses(some, 0 if start else left_out, self._allow_if_no_acl))

    def _end_period(self) -> None:
        self._period = self._loop.call_later(PERIOD_S, self._end_period)
        self.write()
        self._seen = {}
        self._room = dict(ROOM)
        self._on_period()

    def stop(self) -> None:
        """Write the unwritten accesses; later ones are not written."""
        if self._period is not None:
            self._period.cancel()
            self._period = None
        self.write()


def _access(key: Key, bits: int) -> Access:
    principal, host, resource_type, name = key
    operations = [each.name for each in Operation if bits >> each & 1]
    return Access(cut(principal), host, ResourceType(resource_type).name, cut(name), operations)
