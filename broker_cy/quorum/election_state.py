"""`quorum-state`: the durable state of a voter, in the JSON file that Kafka keeps beside the metadata log.

Version 0 of the file (kraft.version 0, static voters) contains the voters. In version 1 (kraft.version 1) they are in
the log instead, and the file also contains the directory id of the vote.
"""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

from broker_cy.core import uuid as uuids
from broker_cy.core.classes import dataclass

FILE_NAME = "quorum-state"
NO_LEADER = -1
NOT_VOTED = -1


class QuorumError(Exception):
    """The quorum cannot run with the files that it found. The message says what to do."""


def _int32(fields: dict[str, Any], name: str, lowest: int) -> int:
    value = int(fields[name])
    if not lowest <= value < 1 << 31:
        raise ValueError(f"{name} is {value}; {lowest} to {(1 << 31) - 1} are allowed")
    return value


@dataclass(frozen=True, slots=True)
class ElectionState:
    """A durable election state. At most one of `leader_id` and `voted_id` is set: a known leader ends the vote."""

    epoch: int
    leader_id: int = NO_LEADER
    voted_id: int = NOT_VOTED
    voted_directory_id: UUID = uuids.ZERO
    voters: tuple[int, ...] | None = None  # None: they are in the log (version 1 of the file)

    def to_json(self) -> bytes:
        """The content of the file, with the same fields as Kafka writes."""
        fields: dict[str, Any]
        if self.voters is None:
            fields = {
                "leaderId": self.leader_id,
                "leaderEpoch": self.epoch,
                "votedId": self.voted_id,
                "votedDirectoryId": uuids.to_text(self.voted_directory_id),
                "data_version": 1,
            }
        else:
            fields = {
                "clusterId": "",
                "leaderId": self.leader_id,
                "leaderEpoch": self.epoch,
                "votedId": self.voted_id,
                "appliedOffset": 0,
                "currentVoters": [{"voterId": voter} for voter in self.voters],
                "data_version": 0,
            }
        return json.dumps(fields, separators=(",", ":")).encode()

    @classmethod
    def from_json(cls, content: bytes) -> ElectionState:
        """Parse the content of the file. Raises QuorumError if it is not a quorum-state of version 0 or 1."""
        try:
            fields = json.loads(content)
            version = fields["data_version"]
            if version not in (0, 1):
                raise QuorumError(f"{FILE_NAME} has data_version {version}; 0 and 1 are supported")
            voters = None
            if version == 0:
                voters = tuple(int(voter["voterId"]) for voter in fields.get("currentVoters") or ())
            directory = fields.get("votedDirectoryId")
            return cls(
                _int32(fields, "leaderEpoch", 0),
                _int32(fields, "leaderId", -1),
                _int32(fields, "votedId", -1),
                uuids.from_text(directory) if directory else uuids.ZERO,
                voters,
            )
        except (ValueError, ArithmeticError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise QuorumError(
                f"{FILE_NAME} is not valid ({error}); restore it from a copy of this directory"
            ) from error
