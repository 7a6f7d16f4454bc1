"""The state of one share partition: which records of a topic partition a share group has not finished.

Values are immutable. A record of `__share_group_state` replaces the whole value.
"""

from __future__ import annotations

import re
from typing import Final, Self
from uuid import UUID

from broker_cy.core.classes import NamedTuple
from broker_cy.core.uuid import from_text, to_text

NO_START_OFFSET: Final = -1
"""Nothing was consumed yet; in a write: the start offset stays as it is."""
NO_EPOCH: Final = -1
"""In a request: the epoch is not checked."""
NO_COUNT: Final = -1
"""The number of finished records at or after the start offset is unknown, and so is the lag."""
_INDEX: Final = re.compile(r"[+-]?[0-9]{1,10}")
_INT32: Final = range(-(1 << 31), 1 << 31)


class SharePartitionKey(NamedTuple):
    """A topic partition as one share group reads it."""

    group_id: str
    topic_id: UUID
    partition: int

    @property
    def text(self) -> str:
        """The key of FindCoordinator, whose hash determines the partition of `__share_group_state`."""
        return f"{self.group_id}:{to_text(self.topic_id)}:{self.partition}"

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Read `group:topicId:partition`, as Kafka does: from the right, because a group id may contain colons, and
        without regard to colons at the end. Raises ValueError, which names the form.
        """
        parts = text.rstrip(":").rsplit(":", 2)
        if len(parts) == 3 and parts[0].strip() and _INDEX.fullmatch(parts[2]) and int(parts[2]) in _INT32:
            try:
                return cls(parts[0], from_text(parts[1]), int(parts[2]))
            except ValueError:
                pass  # no topic id
        raise ValueError(f"{text!r} is not a share partition; expected group:topicId:partition")


class StateBatch(NamedTuple):
    """The records from `first_offset` to `last_offset`, which have one delivery count and one delivery state (0
    available, 2 acknowledged, 4 archived). The order of the fields is Kafka's order of batches.
    """

    first_offset: int
    last_offset: int
    delivery_count: int
    delivery_state: int


class ShareState(NamedTuple):
    """The fields of a ShareSnapshot record, with the updates after it. `batches` has the form of `batches.combine`.
    Times are of the wall clock: of the first snapshot that a write or an initialization made, and of the newest one.
    """

    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int = NO_COUNT
    batches: tuple[StateBatch, ...] = ()
    create_ms: int = 0
    write_ms: int = 0


class Entry(NamedTuple):
    """A share partition in the memory of its coordinator.

    The fences are the highest epochs since the last tombstone. They differ from those of `state`: an initialization
    sets the leader epoch of the state to 0, and the previous leader stays fenced.
    """

    state: ShareState
    leader_fence: int
    state_fence: int
    updates: int
    """ShareUpdate records since the last snapshot that was written because of their number."""
    snapshot_offset: int
    """The offset of the newest snapshot; without one, of the first update. Older records of the key are redundant."""
