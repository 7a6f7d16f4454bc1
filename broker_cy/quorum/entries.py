"""Entries of the metadata log as values: their place, and the content that the quorum itself reads. `wire_log` converts
them from and to Kafka's record batches.
"""

from __future__ import annotations

from broker_cy.core.classes import NamedTuple
from broker_cy.quorum.voters import ReplicaKey, VoterSet


class OffsetAndEpoch(NamedTuple):
    """An exclusive end offset, and the epoch of the entry before it. Also the id of a snapshot that ends there."""

    offset: int
    epoch: int


class Leadership(NamedTuple):
    """The first entry of each epoch (Kafka's LeaderChangeMessage). The log does not keep the directory ids: they are
    ZERO in an entry that was read from the log.
    """

    leader_id: int
    voters: tuple[ReplicaKey, ...]
    granting_voters: tuple[ReplicaKey, ...]


class KRaftVersion(NamedTuple):
    """The finalized kraft.version from this entry on (Kafka's KRaftVersionRecord)."""

    level: int


Control = Leadership | KRaftVersion | VoterSet
"""An entry that the quorum itself reads; a VoterSet is Kafka's VotersRecord."""


class Batch(NamedTuple):
    """The entries `offset` to `end_offset` (exclusive), all of one epoch. `content` is the batch as it is stored, which
    the quorum does not interpret; None if this node makes it from `control`. `control` is the part that it interprets.
    """

    offset: int
    end_offset: int
    epoch: int
    content: bytes | None
    control: tuple[Control, ...] = ()
