"""The common part of the replay of records of consumer, share and streams groups."""

from __future__ import annotations

from typing import NamedTuple, TypeVar

from broker_cy.coordinator.group import Group, GroupAdded, GroupTable
from broker_cy.core.step import Before
from broker_cy.wire import codec

K = TypeVar("K", bound=codec.Message)

# The epoch of the target after a tombstone of its record.
TARGET_DELETED_EPOCH = -1


class FirstRecord(NamedTuple):
    """A record that created its group."""

    added: GroupAdded
    before: Before

    @property
    def group_id(self) -> str:
        return self.added.group_id

    def undo(self, group: Group | None) -> Group | None:
        return self.added.undo(group)

    def restore(self, machine: GroupTable) -> None:
        self.before.restore(machine)
        self.added.restore(machine)


def read_key(cls: type[K], key: bytes) -> K:
    """The key of a record, without its type. Raises WireError if it is malformed."""
    return codec.decode(cls, 0, key[2:])


def first(added: GroupAdded | None, before: Before) -> Before:
    """The state before a record that may have created its group."""
    return before if added is None else FirstRecord(added, before)
