"""How several processes of one file divide the partitions of a flow: as the members of a classic group of the protocol
type `mirror` in the target. The leader of the group numbers the members; a partition belongs to the member with the
number of its hash. The member with the number 0 also runs the tasks that run once.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple
from zlib import crc32

from broker_cy.admin.metadata import TopicPartition
from broker_cy.client.group_member import Joined, MemberSettings, Mode
from broker_cy.core.errors import WireError
from broker_mirror.merged import Pair

PROTOCOL_TYPE: Final = "mirror"
PROTOCOL: Final = "v0"
MEMBERS_MAX: Final = 1_000
"""Processes of one flow; an assignment with more is damaged."""


class Share(NamedTuple):
    """The part of one process: the member with `number` of `members`, from 0 on."""

    number: int
    members: int

    @property
    def leads(self) -> bool:
        """Whether this process runs the tasks that run once."""
        return self.number == 0

    def of(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Return the partitions of this process. The partitions of a topic follow one another in the numbers."""
        return [
            each for each in partitions if (crc32(each.topic.encode()) + each.partition) % self.members == self.number
        ]


def member_settings(pair: Pair) -> MemberSettings:
    """Return the settings of a member of the group of a flow. Members stop their copying within 4 s."""
    return MemberSettings(
        f"broker-mirror-{pair.source}-{pair.target}", session_timeout_ms=10_000, rebalance_timeout_ms=30_000
    )


class ShareProtocol:
    """The bytes of the group: an assignment is JSON, {"number": 0, "members": 2}."""

    protocol_type = PROTOCOL_TYPE
    mode = Mode.EAGER

    def metadata(self, owned: frozenset[Share]) -> Sequence[tuple[str, bytes]]:
        return [(PROTOCOL, b"")]

    def parts(self, assignment: bytes) -> frozenset[Share]:
        """Decode an assignment. Raises WireError."""
        try:
            found = json.loads(assignment)
            share = Share(found["number"], found["members"])
            if not 0 <= share.number < share.members <= MEMBERS_MAX:
                raise ValueError
        except (ValueError, TypeError, KeyError, RecursionError):
            raise WireError(f"an assignment of a mirror has number and members, not {assignment[:200]!r}") from None
        return frozenset([share])

    def assignments(self, members: Sequence[Joined]) -> dict[str, bytes]:
        """Return the assignment of each member."""
        names = sorted(each.member_id for each in members)
        return {
            name: json.dumps({"number": number, "members": len(names)}).encode() for number, name in enumerate(names)
        }
