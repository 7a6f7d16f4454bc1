"""Groups and offsets as the written records leave them, for reads: DescribeGroups, ListGroups, OffsetFetch.

An operation changes the state immediately, and its records are written later, or never. Heartbeats and commits use the
newest state, and their answers wait for the records. As in Kafka, a read is answered at once, with the state of the
last written records: another broker may coordinate the group by now, and the newer state may be undone.

A read undoes the steps that are not written, the newest first, on copies of what they have changed. The state itself
keeps no versions: between two writes, few groups have changes. The live state of a classic group has no versions in
Kafka either.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol, cast

from broker_cy.coordinator.group import Group, GroupTable
from broker_cy.coordinator.offset_record import CommittedOffset
from broker_cy.coordinator.offsets import CommitBefore, OffsetsBefore
from broker_cy.coordinator.step import GroupStep
from broker_cy.core.step import UNCHANGED


class GroupBefore(Protocol):
    """A Before of a record of one group. In `GroupStep.before`, all are such, besides those of offsets."""

    @property
    def group_id(self) -> str: ...

    def undo(self, group: Group | None) -> Group | None:
        """Return the group as it was before the record; None if it did not exist. `group` is a copy that may be
        changed.
        """


class WrittenGroups:
    """The groups of a partition. It is valid until the next operation."""

    def __init__(self, groups: Mapping[str, Group], unwritten: Iterable[GroupStep]) -> None:
        """`unwritten` has the oldest step first."""
        self._groups = groups
        # The groups with unwritten records, as they were before these.
        self._changed: dict[str, Group | None] = {}
        for step in reversed(list(unwritten)):
            for before in reversed(step.before):
                if isinstance(before, CommitBefore) or before is UNCHANGED:
                    continue
                if isinstance(before, OffsetsBefore):
                    if before.created is not None:
                        self._changed[before.created[0]] = None
                    continue
                self._undo(cast(GroupBefore, before))

    def _undo(self, before: GroupBefore) -> None:
        group_id = before.group_id
        if group_id in self._changed:
            group = self._changed[group_id]
        else:
            newest = self._groups.get(group_id)
            group = None if newest is None else newest.copied()
        self._changed[group_id] = before.undo(group)

    def get(self, group_id: str) -> Group | None:
        if group_id in self._changed:
            return self._changed[group_id]
        return self._groups.get(group_id)

    def ids(self) -> list[str]:
        """The ids of all groups."""
        if not self._changed:
            return list(self._groups)
        return [group_id for group_id in {**self._groups, **self._changed} if self.get(group_id) is not None]


class WrittenOffsets:
    """The committed offsets of one group. It is valid until the next operation."""

    def __init__(self, machine: GroupTable, group_id: str, unwritten: Iterable[GroupStep]) -> None:
        """`unwritten` has the oldest step first."""
        self._offsets, self._group_id = machine.offsets, group_id
        # The offsets before the oldest change.
        self._before: dict[tuple[str, int], CommittedOffset | None] = {}
        for step in unwritten:
            for before in step.before:
                if isinstance(before, OffsetsBefore | CommitBefore):
                    for (of, topic, partition), offset in before.offsets().committed:
                        if of == group_id:
                            self._before.setdefault((topic, partition), offset)

    def topics(self) -> Mapping[str, Mapping[int, CommittedOffset]]:
        """They must not be modified."""
        newest = self._offsets.topics(self._group_id)
        if not self._before:
            return newest
        found = {topic: dict(partitions) for topic, partitions in newest.items()}
        for (topic, partition), offset in self._before.items():
            partitions = found.setdefault(topic, {})
            if offset is None:
                partitions.pop(partition, None)
            else:
                partitions[partition] = offset
        return {topic: partitions for topic, partitions in found.items() if partitions}
