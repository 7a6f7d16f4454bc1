"""How the records of streams groups change their state, one record at a time: see `modern.replay`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from broker_cy.coordinator.group import Group, GroupTable
from broker_cy.coordinator.modern.member import LEAVE_EPOCH
from broker_cy.coordinator.modern.replay import Change, ModernReplay, first, index_topics, read_key, removed
from broker_cy.coordinator.records import KeyType
from broker_cy.coordinator.step import GroupStep, Record
from broker_cy.coordinator.streams import deadlines, records
from broker_cy.coordinator.streams.group import StreamsGroup
from broker_cy.coordinator.streams.hooks import HookedStreamsGroup
from broker_cy.coordinator.streams.member import NOTHING_HELD, StreamsMember
from broker_cy.coordinator.streams.topology import Topology, of_value
from broker_cy.core.classes import NamedTuple
from broker_cy.core.step import UNCHANGED, Before
from broker_cy.wire import codec, messages


class EpochBefore(NamedTuple):
    """The epoch of a group, and what its record has besides."""

    group_id: str
    epoch: int
    metadata_hash: int
    validated_epoch: int
    assignment_configs: Mapping[str, str]

    def undo(self, group: Group | None) -> Group | None:
        if isinstance(group, StreamsGroup):
            group.epoch, group.metadata_hash = self.epoch, self.metadata_hash
            group.validated_epoch, group.assignment_configs = self.validated_epoch, self.assignment_configs
        return group

    def restore(self, machine: GroupTable) -> None:
        self.undo(machine.groups[self.group_id])


class TopologyBefore(NamedTuple):
    """The topology of a group; None if it had none."""

    group_id: str
    topology: Topology | None

    def undo(self, group: Group | None) -> Group | None:
        if isinstance(group, StreamsGroup):
            group.put_topology(self.topology)
        return group

    def restore(self, machine: GroupTable) -> None:
        group = machine.groups[self.group_id]
        if isinstance(group, StreamsGroup):
            _put_topology(machine, group, self.topology)


def _left(member: StreamsMember) -> StreamsMember:
    return member._replace(epoch=LEAVE_EPOCH, previous_epoch=LEAVE_EPOCH, assigned=NOTHING_HELD, revoking=NOTHING_HELD)


_REPLAY: Final = ModernReplay(
    hooked=HookedStreamsGroup,
    records=records.RECORDS,
    target_of=records.target_of,
    new_member=StreamsMember,
    with_metadata=records.with_metadata,
    with_current=records.with_current,
    left=_left,
)


def _put_topology(machine: GroupTable, group: StreamsGroup, new: Topology | None) -> None:
    """Set the topology; a change of its topics marks the group from now on."""
    before = set(group.named_topics())
    group.put_topology(new)
    index_topics(machine, group, before)


def append_topology(
    machine: GroupTable, step: GroupStep, group: StreamsGroup, topology: Topology, record: Record
) -> None:
    """Append the record of a topology, which is not read again: it may name 10,000 topics."""
    step.records.append(record)
    step.before.append(TopologyBefore(group.group_id, group.topology))
    machine.next_offset += 1
    _put_topology(machine, group, topology)


def _change_epoch(machine: GroupTable, offset: int, producer_id: int, key: bytes, value: bytes | None) -> Before:
    group_id = read_key(messages.StreamsGroupMetadataKey, key).group_id
    group, added = _REPLAY.group(machine, group_id, value)
    if not isinstance(group, StreamsGroup):
        return UNCHANGED
    if value is None:
        deadlines.cancel_delay(machine, group_id)
        return removed(machine, group)
    before = EpochBefore(group_id, group.epoch, group.metadata_hash, group.validated_epoch, group.assignment_configs)
    data, _ = codec.decode_versioned(messages.StreamsGroupMetadataValue, value)
    group.epoch, group.metadata_hash = data.epoch, data.metadata_hash
    group.validated_epoch = data.validated_topology_epoch
    group.assignment_configs = {each.key: each.value for each in data.last_assignment_configs or ()}
    return first(added, before)


def _change_topology(machine: GroupTable, offset: int, producer_id: int, key: bytes, value: bytes | None) -> Before:
    group_id = read_key(messages.StreamsGroupTopologyKey, key).group_id
    group, added = _REPLAY.group(machine, group_id, value)
    if not isinstance(group, StreamsGroup):
        return UNCHANGED
    before = TopologyBefore(group_id, group.topology)
    _put_topology(machine, group, None if value is None else of_value(value))
    return first(added, before)


CHANGES: Final[dict[KeyType, Change]] = {
    **_REPLAY.changes(),
    KeyType.STREAMS_GROUP_METADATA: _change_epoch,
    KeyType.STREAMS_GROUP_TOPOLOGY: _change_topology,
}
