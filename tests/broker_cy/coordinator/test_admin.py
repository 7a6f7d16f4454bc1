"""Describing, listing and deleting groups, and which partition stores a group."""

from __future__ import annotations

import pytest

from broker_cy.coordinator.routing import java_string_hash, partition_for
from broker_cy.core.errors import ErrorCode
from tests.broker_cy.coordinator.harness import GROUP, Harness


@pytest.fixture
def h() -> Harness:
    return Harness()


def test_stable_group_is_described_with_metadata_and_assignment(h: Harness) -> None:
    """If this fails, tools show a group without its members."""
    a, b = h.stable("a", "b")
    group = h.describe(GROUP, 5)
    assert (group.group_state, group.protocol_type, group.protocol_data) == ("Stable", "consumer", "range")
    members = {m.member_id: m for m in group.members}
    assert members.keys() == {a, b}
    assert members[b].member_assignment == b.encode()
    assert members[b].member_metadata == b"\x00\x00"
    assert (members[b].client_id, members[b].client_host) == ("client", "/127.0.0.1")


def test_group_in_rebalance_is_described_without_metadata(h: Harness) -> None:
    """If this fails, a tool decodes metadata of a protocol that is not chosen yet."""
    h.join_new("a")
    group = h.describe(GROUP, 5)
    assert (group.group_state, group.protocol_data) == ("PreparingRebalance", "")
    assert group.members[0].member_metadata == b""


def test_a_new_group_exists_from_the_join_on(h: Harness) -> None:
    """If this fails, a tool does not find the group of a consumer that has just received its member id."""
    h.hold = True
    assert h.join("a").error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert h.describe().group_state == "Empty"
    assert [group.group_id for group in h.list_groups()] == [GROUP]
    h.fail()
    assert h.describe().error_code == ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize(("version", "code"), [(5, ErrorCode.NONE), (6, ErrorCode.GROUP_ID_NOT_FOUND)])
def test_unknown_group_is_dead(h: Harness, version: int, code: ErrorCode) -> None:
    """If this fails, tools take a mistyped name for a group without members."""
    group = h.describe("nobody", version)
    assert (group.group_state, group.error_code) == ("Dead", code)


def test_groups_are_listed_by_state_and_type_without_case(h: Harness) -> None:
    """If this fails, kafka-consumer-groups --list --state stable shows nothing."""
    h.stable("a")
    h.commit("c", 1, group_id="simple")
    assert {g.group_id for g in h.list_groups()} == {GROUP, "simple"}
    (found,) = h.list_groups([" stable "], ["Classic"])
    assert (found.group_id, found.protocol_type, found.group_state, found.group_type) == (
        GROUP,
        "consumer",
        "Stable",
        "classic",
    )
    assert h.list_groups([], ["consumer"]) == []
    assert h.list_groups([], ["nonsense"]) == []
    assert [g.group_id for g in h.list_groups(["EMPTY"], [])] == ["simple"]


def test_group_is_deleted_with_its_offsets_but_not_with_members(h: Harness) -> None:
    """If this fails, deleting leaves offsets behind, or deletes an active group."""
    (a,) = h.stable("a")
    h.commit("c", 1, member_id=a, generation=1)
    assert h.delete_groups("d1", GROUP, "nobody") == {
        GROUP: ErrorCode.NON_EMPTY_GROUP,
        "nobody": ErrorCode.GROUP_ID_NOT_FOUND,
    }
    h.leave("l", (a, None))
    assert h.delete_groups("d2", GROUP, GROUP) == {GROUP: ErrorCode.NONE}
    assert h.fetch().committed_offset == -1
    h.restart()
    assert not h.machine.groups
    assert h.machine.offsets.count == 0


def test_deletion_that_cannot_be_written_is_undone(h: Harness) -> None:
    """If this fails, the group disappears for clients and comes back after a restart."""
    (a,) = h.stable("a")
    h.commit("c", 1, member_id=a, generation=1)
    h.leave("l", (a, None))
    h.hold = True
    h.delete_groups("d", GROUP, "nobody")
    assert GROUP not in h.machine.groups
    h.fail()
    codes = {r.group_id: r.error_code for r in h.answers["d"].results}
    assert codes == {GROUP: ErrorCode.NOT_COORDINATOR, "nobody": ErrorCode.NOT_COORDINATOR}
    assert GROUP in h.machine.groups
    assert h.fetch().committed_offset == 1


def test_member_id_that_expires_during_a_failed_deletion_is_gone(h: Harness) -> None:
    """If this fails, each rebalance of the group waits for a member that never joins, until its timeout."""
    h.join("first", session_ms=10_000)
    assert h.group().pending_members
    h.hold = True
    h.delete_groups("d", GROUP)
    h.advance(10_000)
    h.fail()
    assert not h.group().pending_members


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", 0),
        ("a", 97),
        ("test-group", 627841412),
        ("polygenelubricants", -2147483648),
        ("grüße", 98768023),
        ("\U0001f600", 1772899),
    ],
)
def test_hash_is_javas(text: str, value: int) -> None:
    """If this fails, after a move from Kafka, groups are looked up in the wrong partition, and their offsets are
    missing.
    """
    assert java_string_hash(text) == value


def test_partition_of_a_group_is_kafkas() -> None:
    """If this fails, the same; the one hash without a positive counterpart belongs to partition 0."""
    assert partition_for("polygenelubricants", 50) == 0
    assert partition_for("test-group", 50) == 627841412 % 50
    assert {partition_for(f"g{i}", 50) for i in range(1000)} == set(range(50))
