"""The voters and the kraft.version by log offset: the newest record counts, also before it is committed (KIP-853), and
a truncation goes back to the one before it.
"""

from __future__ import annotations

from collections.abc import Iterable

from broker_cy.core.classes import NamedTuple
from broker_cy.quorum.entries import Control, KRaftVersion
from broker_cy.quorum.voters import VoterSet

BEFORE_THE_LOG = -1


class VotersAt(NamedTuple):
    """In force from the batch at `offset` on; BEFORE_THE_LOG for configured voters, or those in a snapshot."""

    offset: int
    kraft_version: int
    voters: VoterSet


class VoterHistory:
    """Never empty. A change must be committed before the next one, so that a leader adds one entry at a time; all
    changes that a snapshot covers are one entry.
    """

    __slots__ = ("_entries",)

    def __init__(self, voters: VoterSet, kraft_version: int = 0) -> None:
        self._entries = [VotersAt(BEFORE_THE_LOG, kraft_version, voters)]

    @property
    def newest(self) -> VotersAt:
        return self._entries[-1]

    @property
    def before_newest(self) -> VotersAt | None:
        """The entry before the newest one; None if that is from before the log."""
        return self._entries[-2] if len(self._entries) > 1 else None

    def note(self, offset: int, control: Iterable[Control]) -> bool:
        """Note the entries of the batch at `offset`; return whether they change anything."""
        _, kraft_version, voters = self._entries[-1]
        found = False
        for entry in control:
            if isinstance(entry, VoterSet):
                voters, found = entry, True
            elif isinstance(entry, KRaftVersion):
                kraft_version, found = entry.level, True
        if found:
            assert offset > self._entries[-1].offset, f"the voters at {offset} do not follow {self._entries[-1]}"
            self._entries.append(VotersAt(offset, kraft_version, voters))
        return found

    def truncate(self, end_offset: int) -> bool:
        """Drop the entries at `end_offset` or behind; return whether any was dropped."""
        length = len(self._entries)
        while self._entries[-1].offset >= end_offset and len(self._entries) > 1:
            self._entries.pop()
        return len(self._entries) < length

    def at(self, end_offset: int) -> VotersAt:
        """The voters in force before `end_offset`: those in a snapshot that ends there."""
        return next((entry for entry in reversed(self._entries) if entry.offset < end_offset), self._entries[0])

    def begin_at(self, start_offset: int) -> None:
        """Forget the changes that a snapshot that ends at `start_offset` covers."""
        while len(self._entries) > 1 and self._entries[1].offset < start_offset:
            del self._entries[0]

    def replace(self, voters: VoterSet, kraft_version: int) -> None:
        """Everything is from a snapshot."""
        self._entries = [VotersAt(BEFORE_THE_LOG, kraft_version, voters)]
