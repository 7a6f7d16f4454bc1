"""The voters of the metadata quorum as values: the identity of a replica (id and directory id), and the majority. With
kraft.version 0 the set is configured (controller.quorum.voters) and without directory ids; with kraft.version 1 it is
in the log (VotersRecord, KIP-853).
"""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from broker_cy.core import uuid as uuids
from broker_cy.core.classes import NamedTuple

MIN_KRAFT_VERSION = 0
MAX_KRAFT_VERSION = 1


class ReplicaKey(NamedTuple):
    """A replica of the log. A wiped disk that comes back with its id has another directory id, so that votes and
    acknowledgements of the old disk do not count for it. ZERO: unknown (kraft.version 0, old request versions).
    """

    id: int
    directory_id: UUID = uuids.ZERO

    def __str__(self) -> str:
        return f"{self.id}@{uuids.to_text(self.directory_id)}" if self.directory_id != uuids.ZERO else str(self.id)


class Endpoint(NamedTuple):
    """The address of a node on the listener `name`."""

    name: str
    host: str
    port: int


class Voter(NamedTuple):
    """`endpoints` are those of the controller listeners, the preferred one first; the range is that of the
    kraft.version that the node supports.
    """

    key: ReplicaKey
    endpoints: tuple[Endpoint, ...] = ()
    min_kraft_version: int = MIN_KRAFT_VERSION
    max_kraft_version: int = MAX_KRAFT_VERSION


class VoterSet:
    """Immutable, ordered by id, at most one voter of each id. May be empty: then no voter is known yet."""

    __slots__ = ("_by_id", "ids", "majority", "voters")

    def __init__(self, voters: Iterable[Voter] = ()) -> None:
        """Raises ValueError if an id occurs twice."""
        self.voters = tuple(sorted(voters, key=lambda voter: voter.key.id))
        self._by_id = {voter.key.id: voter for voter in self.voters}
        self.ids = tuple(self._by_id)
        self.majority = len(self.voters) // 2 + 1
        if len(self._by_id) != len(self.voters):
            raise ValueError(f"the voters {[str(voter.key) for voter in self.voters]} contain an id twice")

    @classmethod
    def of_ids(cls, ids: Iterable[int]) -> VoterSet:
        """Static voters without addresses."""
        return cls(Voter(ReplicaKey(voter_id)) for voter_id in ids)

    def __len__(self) -> int:
        return len(self.voters)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VoterSet) and self.voters == other.voters

    def __hash__(self) -> int:
        return hash(self.ids)

    def __repr__(self) -> str:
        return f"VoterSet({', '.join(str(voter.key) for voter in self.voters)})"

    def get(self, voter_id: int) -> Voter | None:
        """The voter with this id, in any directory."""
        return self._by_id.get(voter_id)

    def __contains__(self, key: ReplicaKey) -> bool:
        """Whether the replica is a voter: id and directory id are those of a voter, or the set has no directory id."""
        voter = self._by_id.get(key.id)
        if voter is None:
            return False
        directory_id = voter.key.directory_id
        return directory_id is key.directory_id or directory_id in (uuids.ZERO, key.directory_id)

    @property
    def keys(self) -> tuple[ReplicaKey, ...]:
        return tuple(voter.key for voter in self.voters)

    def endpoints(self, voter_id: int) -> tuple[Endpoint, ...]:
        """The endpoints of a voter; empty for any other node."""
        voter = self._by_id.get(voter_id)
        return voter.endpoints if voter is not None else ()

    # --- changes (KIP-853): each returns another set

    def added(self, voter: Voter) -> VoterSet:
        """Raises ValueError if the set has a voter with this id."""
        return VoterSet((*self.voters, voter))

    def removed(self, key: ReplicaKey) -> VoterSet:
        """Raises KeyError unless the replica is a voter."""
        if key not in self:
            raise KeyError(key)
        return VoterSet(voter for voter in self.voters if voter.key.id != key.id)

    def updated(self, voter: Voter) -> VoterSet:
        """Replace the endpoints and versions of a voter. Raises KeyError unless the replica is a voter."""
        if voter.key not in self:
            raise KeyError(voter.key)
        return VoterSet(voter if old.key.id == voter.key.id else old for old in self.voters)

    def with_directory(self, key: ReplicaKey) -> VoterSet:
        """Fill in the missing directory id of a voter."""
        return VoterSet(old._replace(key=key) if old.key.id == key.id else old for old in self.voters)

    def supports(self, kraft_version: int) -> bool:
        """Whether all voters support the version."""
        return all(voter.min_kraft_version <= kraft_version <= voter.max_kraft_version for voter in self.voters)
