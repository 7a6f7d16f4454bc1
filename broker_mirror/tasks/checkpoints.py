"""Checkpoints: the committed offsets of groups of the source, translated exactly (broker_mirror/translation.py). Those
to write are chosen as MirrorCheckpointTask of Kafka 4.3.1 does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from broker_cy.admin.group_offsets import Committed
from broker_mirror.flows import Flow
from broker_mirror.formats.checkpoints import Checkpoint
from broker_mirror.translation import Translation

LAST_MAX: Final = 1_000_000
"""Checkpoints that are remembered, about 300 MB; the oldest is forgotten first, and then written again."""


@dataclass(frozen=True, slots=True)
class LastCheckpoint:
    """The newest checkpoint of a partition of a group. If the group went back in the source, `went_back_from` is the
    offset in the target that it had before; else None.
    """

    checkpoint: Checkpoint
    went_back_from: int | None = None


class Checkpoints:
    """The newest checkpoints, from the records of their topic in their order."""

    def __init__(self, last_max: int = LAST_MAX) -> None:
        self._max = last_max
        self._last: dict[tuple[str, str, int], LastCheckpoint] = {}

    def apply(self, found: Checkpoint) -> None:
        key = found.group, found.topic, found.partition
        before = self._last.pop(key, None)
        went_back = before is not None and found.source_offset < before.checkpoint.source_offset
        self._last[key] = LastCheckpoint(
            found, before.checkpoint.target_offset if before is not None and went_back else None
        )
        if len(self._last) > self._max:
            del self._last[next(iter(self._last))]

    def forget(self, key: tuple[str, str, int]) -> None:
        """Take the deletion of a checkpoint."""
        self._last.pop(key, None)

    def last(self, group: str, topic: str, partition: int) -> LastCheckpoint | None:
        return self._last.get((group, topic, partition))

    def of_groups(self, groups: Iterable[str]) -> dict[str, list[LastCheckpoint]]:
        """Return the checkpoints of each of these groups that has some."""
        found: dict[str, list[LastCheckpoint]] = {}
        wanted = frozenset(groups)
        for (group, _, _), last in self._last.items():
            if group in wanted:
                found.setdefault(group, []).append(last)
        return found


def plan_checkpoints(
    flow: Flow, groups: Mapping[str, Committed], translation: Translation, checkpoints: Checkpoints
) -> Iterator[Checkpoint]:
    """Yield the checkpoints to write for the committed offsets of groups of the source.

    A checkpoint is written if it is the first of its partition, if its offset in the target has grown, or if the group
    went back in the source. An offset without a translation has none.
    """
    for group, offsets in groups.items():
        for (topic, partition), committed in offsets.items():
            if not flow.copies_topic(topic):
                continue
            target = translation.translate(topic, partition, committed.offset)
            if target is None:
                continue
            found = Checkpoint(group, flow.remote_topic(topic), partition, committed.offset, target, committed.metadata)
            last = checkpoints.last(group, found.topic, partition)
            if last is None or _is_newer(found, last.checkpoint):
                yield found


def _is_newer(found: Checkpoint, last: Checkpoint) -> bool:
    return found.source_offset < last.source_offset or found.target_offset > last.target_offset
