"""The invariants of the group coordinator: its state is compared with the clients' knowledge, and with its log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker_cy.coordinator.base import Deletions
from broker_cy.coordinator.classic.group import ClassicGroup
from broker_cy.coordinator.classic.state import GroupState
from tests.broker_cy.coordinator.harness import durable, replayed
from tests.sim.group_clients import ANSWER_WITHIN_MS, GROUPS, MEMBERS_MAX, SESSION_MS

if TYPE_CHECKING:
    from tests.sim.group_world import World


def check(world: World) -> None:
    """Check the invariants after each step; the AssertionError names the violation."""
    machine = world.harness.machine
    waiting_tokens: set[object] = set()
    for group_id in GROUPS:
        world.incarnation(group_id)
    for group in machine.classic_groups():
        members = group.members
        assert group.leader_id in members if members else group.leader_id is None
        assert group.waiting_joins == sum(m.join_token is not None for m in members.values())
        assert group.pending_sync <= members.keys()
        assert not group.pending_members & members.keys()
        statics = {m.instance_id: m.member_id for m in members.values() if m.instance_id is not None}
        assert statics == group.static_members
        assert (group.state is GroupState.EMPTY) <= (not members)
        for member in members.values():
            waiting_tokens |= {member.join_token, member.sync_token} - {None}
            assert member.sync_token is None or group.state is GroupState.COMPLETING_REBALANCE
        _check_sessions(world, group)
        if group.state is GroupState.STABLE:
            shared = sorted(member.assignment for member in members.values())
            whole = sorted(b"%d:%d" % (group.generation, number) for number in range(len(members)))
            assert shared == whole, f"{group.group_id} is stable with the assignments {shared}"
            dynamic = sum(not member.is_static for member in members.values())
            assert dynamic <= MEMBERS_MAX, f"{group.group_id} has {dynamic} members"
            assert group.protocol_name is not None
            assert all(any(p == group.protocol_name for p, _ in m.protocols) for m in members.values())
    deletions = sum(isinstance(follow, Deletions) for step in world.harness.held for follow in step.follows)
    assert deletions <= 1, f"{deletions} steps of deletions that no request waits for are being written"
    known = world.harness.answers.keys()
    now_ms = world.harness.mono_ms
    for client in world.clients:
        if client.waiting is not None:
            # Each request waits in exactly one place, or its response depends on a record that is being written.
            assert client.waiting in waiting_tokens or world.harness.held, f"the request of {client.name} is lost"
            waited_ms = 0 if world.harness.held else now_ms - client.since_ms
            assert waited_ms <= ANSWER_WITHIN_MS, f"{client.name} has waited {waited_ms} ms for {client.waits_for}"
    for token, since_ms in world.abandoned.items():
        assert token in known or token in waiting_tokens or world.harness.held
        assert world.harness.held or now_ms - since_ms <= ANSWER_WITHIN_MS, f"request {token} is not answered"
    if not world.harness.held:
        again = replayed(world.harness.log, world.harness.settings, world.harness.now)
        assert durable(again) == durable(machine), "a restart would restore another state"
        for (group_id, partition), offset in world.committed.items():
            found = machine.offsets.get(group_id, "t", partition)
            assert found is not None, "an acknowledged commit is lost"
            assert found.committed_offset == offset, "an acknowledged commit went back"


def _check_sessions(world: World, group: ClassicGroup) -> None:
    """Check that members without a client, and unused member ids, are removed after the session timeout."""
    now_ms = world.harness.mono_ms
    alive = {client.member_id for client in world.clients if client.alive and client.group_id == group.group_id}
    # The session of a member whose request waits begins with the response.
    gone = {
        (group.group_id, member_id)
        for member_id, member in group.members.items()
        if member_id not in alive and member.join_token is None and member.sync_token is None
    }
    pending = {(group.group_id, member_id) for member_id in group.pending_members}
    for known, there in ((world.gone, gone), (world.pending, pending)):
        for key in [key for key in known if key[0] == group.group_id and key not in there]:
            del known[key]
        for key in there:
            known.setdefault(key, now_ms)
    for key in gone:
        since_ms = now_ms - world.gone[key]
        assert since_ms <= SESSION_MS, f"{key} has been a member for {since_ms} ms without a client"
    for key in pending:
        assert now_ms - world.pending[key] <= SESSION_MS, f"{key} has not joined, but its member id is still reserved"
