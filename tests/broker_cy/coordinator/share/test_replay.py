"""The records of share groups: what each of them changes, and what a log may have that is compacted meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

import pytest

from broker_cy.coordinator.modern.member import MemberState
from broker_cy.coordinator.share import records
from broker_cy.coordinator.share.group import ShareGroup
from broker_cy.coordinator.share.member import ShareMember
from broker_cy.coordinator.share.state_partitions import SharePartitions
from broker_cy.coordinator.step import GroupStep, Record
from tests.broker_cy.coordinator.harness import Harness, durable

G = "sharers"
T, U, V = UUID(int=1), UUID(int=2), UUID(int=3)
ASSIGNED = {T: frozenset({0, 2})}
MEMBER = ShareMember("m", 3, 2, MemberState.STABLE, "rack", "client", "/10.0.0.1", frozenset({"t", "u"}), ASSIGNED)
PARTITIONS = SharePartitions({U: frozenset({1})}, ASSIGNED, frozenset({V}), {T: "t", U: "u", V: "v"})


def all_records() -> list[Record]:
    return [
        records.member_record(G, MEMBER),
        records.epoch_record(G, 3, 77),
        records.target_record(G, "m", ASSIGNED),
        records.target_epoch_record(G, 3, 1_000),
        records.current_record(G, MEMBER),
        records.share_partitions_record(G, PARTITIONS),
    ]


def group(h: Harness) -> ShareGroup:
    found = h.machine.groups[G]
    assert isinstance(found, ShareGroup)
    return found


def test_a_loaded_group_is_the_one_that_was_written() -> None:
    """If this fails, share members are fenced after a move of the coordinator, or read other partitions."""
    h = Harness()
    for offset, record in enumerate(all_records()):
        h.machine.apply(offset, -1, *record)
    found = group(h)
    assert (found.epoch, found.metadata_hash, found.assignment_epoch, found.assigned_at_ms) == (3, 77, 3, 1_000)
    assert found.members == {"m": MEMBER}
    assert found.target == {"m": ASSIGNED}
    assert found.share_partitions == PARTITIONS
    assert found.state_name == "Stable"
    assert set(h.machine.subscribers.of("u")) == {G}


def changes() -> Iterator[tuple[str, list[Record], list[Record]]]:
    """Yield names, records that are written, and records that are not."""
    everything = all_records()
    for number, record in enumerate(everything):
        yield f"first {number}", [], [record]
        yield f"tombstone {number}", everything, [Record(record.key, None)]
    yield "member", everything, [records.member_record(G, MEMBER._replace(topics=frozenset({"w"})))]
    yield "leave", everything, records.member_tombstones(G, "m")


@pytest.mark.parametrize(("written", "unwritten"), [pytest.param(*each[1:], id=each[0]) for each in changes()])
def test_an_undone_record_has_changed_nothing(written: list[Record], unwritten: list[Record]) -> None:
    """If this fails, a disk that was full leaves a share group in a state that no log has."""
    h = Harness()
    h.machine.append(GroupStep(), written)
    before = durable(h.machine)
    held = h.machine.new_step()
    h.machine.append(held, unwritten)
    assert durable(h.machine) != before
    h.held = [held]
    shown = h.written().get(G)
    expected = before["share"].get(G)
    assert (None if shown is None else durable_of(shown)) == expected, "reads show what is not written"
    h.fail()
    assert durable(h.machine) == before


def durable_of(found: object) -> object:
    h = Harness()
    assert isinstance(found, ShareGroup)
    h.machine.add_group(found)
    return durable(h.machine)["share"][G]


@pytest.mark.parametrize("known", range(3), ids=["nothing", "group", "member"])
def test_tombstones_of_what_was_compacted_away_change_nothing(known: int) -> None:
    """If this fails, the coordinator cannot load a log after the group was deleted (KAFKA-17306)."""
    h = Harness()
    h.machine.append(GroupStep(), [[], [records.epoch_record(G, 2, 0)], [records.member_record(G, MEMBER)]][known])
    for record in records.member_tombstones(G, "other"):
        h.machine.apply(9, -1, *record)
    assert (G in h.machine.groups) == (known > 0)
    for record in all_records():
        h.machine.apply(10, -1, record.key, None)
    for record in [records.share_partitions_tombstone(G), records.epoch_tombstone(G)]:
        h.machine.apply(11, -1, *record)
    assert G not in h.machine.groups


def test_the_tombstones_of_a_group_leave_nothing_that_kafka_refuses() -> None:
    """If this fails, Kafka cannot load the log: a group is deleted before its members or its target."""
    h = Harness()
    h.machine.append(GroupStep(), all_records())
    found = group(h).tombstones()
    assert [int.from_bytes(record.key[:2], "big") for record in found] == [14, 13, 12, 10, 15, 11]
    for record in found[:-1]:
        h.machine.apply(20, -1, *record)
    assert (group(h).members, group(h).target, group(h).assignment_epoch) == ({}, {}, 1)
    h.machine.apply(30, -1, *found[-1])
    assert not h.machine.groups
