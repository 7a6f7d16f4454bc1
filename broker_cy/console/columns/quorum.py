"""Columns of the metadata quorum and of the features of the cluster."""

from __future__ import annotations

from typing import Final

from broker_cy.admin.cluster import FeatureRange
from broker_cy.admin.quorum import QuorumDescription, QuorumReplica
from broker_cy.reporting.column import Column, Kind
from broker_cy.reporting.tone import Tone

# A replica of the metadata log and its role.
QuorumRow = tuple[str, QuorumReplica]


def quorum_rows(quorum: QuorumDescription) -> list[QuorumRow]:
    """Return voters and observers. Another node with the id of the leader is an observer."""
    voters = [("leader" if each.replica_id == quorum.leader_id else "voter", each) for each in quorum.voters]
    return voters + [("observer", each) for each in quorum.observers]


def _fetched(row: QuorumRow) -> int | None:
    """The leader does not fetch."""
    return None if row[0] == "leader" else row[1].last_fetch_ms


NODE: Final = Column[QuorumRow]("id", "Node", lambda row: row[1].replica_id, Kind.NUMBER, width=6)
ROLE: Final = Column[QuorumRow](
    "role", "Role", lambda row: row[0], tone=lambda row: Tone.GOOD if row[0] == "leader" else Tone.PLAIN, width=9
)
LOG_END: Final = Column[QuorumRow](
    "end", "Log end", lambda row: row[1].log_end_offset, Kind.COUNT, hint="Log end offset", width=14
)
LAG: Final = Column[QuorumRow](
    "behind",
    "Lag",
    lambda row: row[1].lag,
    Kind.COUNT,
    tone=lambda row: Tone.WARN if row[1].lag else Tone.PLAIN,
    hint="Records of the metadata log that the replica lacks",
)
FETCHED: Final = Column[QuorumRow]("fetched", "Last fetch", _fetched, Kind.TIME, width=14)
CAUGHT_UP: Final = Column[QuorumRow](
    "caught-up", "Last caught up", lambda row: row[1].last_caught_up_ms, Kind.TIME, width=14
)
ENDPOINTS: Final = Column[QuorumRow](
    "endpoints", "Endpoints", lambda row: " ".join(map(str, row[1].endpoints)) or None, sorts=False, width=27
)
DIRECTORY_ID: Final = Column[QuorumRow](
    "directory",
    "Directory id",
    lambda row: row[1].directory_id if row[1].has_directory else None,
    sorts=False,
    width=24,
)

FEATURE: Final = Column[FeatureRange]("feature", "Feature", lambda row: row.name, width=24)
FINALIZED: Final = Column[FeatureRange](
    "level", "Finalized", lambda row: row.finalized, Kind.NUMBER, hint="Finalized version level", width=9
)
SUPPORTED: Final = Column[FeatureRange](
    "supported",
    "Supported",
    lambda row: f"{row.supported_min} to {row.supported_max}",
    sorts=False,
    hint="Versions that the broker supports",
)
