"""JoinGroup, SyncGroup, Heartbeat, LeaveGroup: how generations begin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey
from tests.compat.differential.members import (
    MEMBER_ID_REQUIRED,
    REBALANCE_IN_PROGRESS,
    SUBSCRIPTION,
    Member,
    gather,
    heartbeat,
    join,
    leave,
    stable,
    sync,
)
from tests.compat.differential.script import PATIENCE_S, Run, script
from tests.support.wait import until

STATIC_JOIN = 5
MEMBERS_LEAVE = 3


def _ask_join(run: Run, label: str, version: int, request: messages.JoinGroupRequest, client: str = "") -> Any:
    """Join and give the new member id a name."""
    if not run.offer(label, request, version, client):
        return None
    answer = run.answer(label, client)
    if not isinstance(answer, str) and answer.member_id and not request.member_id:
        run.names.give(f"member of {label}", answer.member_id)
    run.record(label, answer)
    return answer


@script(ApiKey.JOIN_GROUP)
def join_refused(run: Run, version: int) -> None:
    group = run.name

    def ask(label: str, *args: Any, **how: Any) -> None:
        _ask_join(run, label, version, join(*args, **how))

    ask("empty group", "")
    ask("session timeout too short", group, session_ms=99)
    ask("session timeout too long", group, session_ms=1_800_001)
    ask("session timeout 0", group, session_ms=0)
    ask("session timeout negative", group, session_ms=-1)
    ask("unknown member", group, "nobody")
    ask("unknown static member", group, "nobody", "one")
    ask("no protocols", group, protocols=[])
    ask("empty protocol type", group, protocol_type="")
    ask("no protocols with an id", group, "nobody", protocols=[])
    run.ask("group is not there", messages.DescribeGroupsRequest(groups=[group]), 5)
    _ask_join(run, "no protocols, static", version, join(group, instance="i", protocols=[]))
    _ask_join(run, "no type, static", version, join(group, instance="i", protocol_type=""))
    first = Member(run, f"{group}-typed", "first", protocols=[("a", b"1"), ("b", b"2")], protocol_type="kind")
    first.join()
    first.sync((first.id, b"x"), protocol_type="kind", protocol_name="a")
    typed = first.group
    ask("another protocol type", typed, protocols=[("a", b"1")], protocol_type="other")
    ask("no protocol in common", typed, protocols=[("c", b"1")], protocol_type="kind")
    ask("no protocol at all", typed, protocols=[], protocol_type="kind")
    ask("member of another group", group, first.id)
    ask("member with another type", typed, first.id, protocols=[("a", b"1")], protocol_type="other")
    ask("member with an instance id", typed, first.id, "one", protocols=[("a", b"1")], protocol_type="kind")
    run.ask("still stable", messages.DescribeGroupsRequest(groups=[typed]), 5)


@script(ApiKey.JOIN_GROUP)
def join_and_rejoin(run: Run, version: int) -> None:
    group = run.name
    protocols = [("range", SUBSCRIPTION), ("roundrobin", SUBSCRIPTION)]
    first = _ask_join(run, "first", version, join(group, protocols=protocols), "a")
    member_id = first.member_id
    if first.error_code == MEMBER_ID_REQUIRED:
        run.ask("known, but not a member", messages.DescribeGroupsRequest(groups=[group]), 5)
        first = _ask_join(run, "first, with its id", version, join(group, member_id, protocols=protocols), "a")
    generation = first.generation_id
    _ask_join(run, "again before the sync", version, join(group, member_id, protocols=protocols), "a")
    changed = join(group, member_id, protocols=[("roundrobin", SUBSCRIPTION)], reason="another subscription")
    again = _ask_join(run, "again with other protocols", version, changed, "a")
    run.ask("heartbeat of the generation before", heartbeat(group, generation, member_id), 4)
    generation = again.generation_id
    synced = sync(group, generation, member_id, [(member_id, b"all")], protocol_name="roundrobin")
    run.ask("sync", synced, 5)
    run.ask("heartbeat", heartbeat(group, generation, member_id), 4)
    rejoined = _ask_join(run, "the leader joins a stable group", version, changed, "a")
    synced = sync(group, rejoined.generation_id, member_id, [(member_id, b"all")], protocol_name="roundrobin")
    run.ask("sync again", synced, 5)
    run.ask("as it is described", messages.DescribeGroupsRequest(groups=[group]), 5)
    run.ask("leaves", leave(group, (member_id, None)), 3)
    _ask_join(run, "joins after leaving", version, changed, "a")
    run.ask("as it is described at last", messages.DescribeGroupsRequest(groups=[group]), 5)


@script(ApiKey.JOIN_GROUP)
def join_of_three(run: Run, version: int) -> None:
    """A second and a third member, one more than group.max.size, and the leader's departure."""
    group = run.name
    one, two, three, four = (Member(run, group, name) for name in ("one", "two", "three", "four"))
    one.join("one alone", version)
    one.sync((one.id, b"1"))
    two.send_join(version)
    one.await_rebalance()
    run.ask("rebalancing", messages.DescribeGroupsRequest(groups=[group]), 5)
    one.send_join(version)
    one.joined("one with two")
    two.joined("two with one")
    run.ask("two's heartbeat before the sync", heartbeat(group, two.generation, two.id), 4)
    run.ask("awaiting the assignment", messages.DescribeGroupsRequest(groups=[group]), 5)
    one.sync((one.id, b"1"), (two.id, b"2"))
    run.ask("two's sync", sync(group, two.generation, two.id), 5)
    two.send_join(version)
    two.joined("a follower joins a stable group unchanged")
    three.send_join(version)
    one.await_rebalance()
    for member in (one, two):
        member.send_join(version)
    for member in (one, two, three):
        member.joined(f"{member.name} of three")
    one.sync((one.id, b"1"), (two.id, b"2"), (three.id, b"3"))
    _ask_join(run, "one too many", version, join(group, four.id), "four")
    run.ask("three of them", messages.DescribeGroupsRequest(groups=[group]), 5)
    run.ask("the leader leaves", leave(group, (one.id, None)), 3)
    two.await_rebalance()
    two.send_join(version)
    until(lambda: three.heartbeat() == REBALANCE_IN_PROGRESS, "the third to be asked, too", PATIENCE_S)
    three.send_join(version)
    answers = [two.joined(), three.joined()]
    leaders = {answer.leader for answer in answers}
    assert len(leaders) == 1
    run.record("there is one leader, who knows both", str(sorted(len(answer.members) for answer in answers)))


@script(ApiKey.JOIN_GROUP)
def join_static(run: Run, version: int) -> None:
    if version < STATIC_JOIN:
        _ask_join(run, "no static members before 5", version, join("", ""))
        return
    group = run.name
    member = Member(run, group, "first life", "one")
    member.join("first life", version)
    member.sync((member.id, b"1"))
    other = Member(run, group, "other", "two")
    other.send_join(version)
    member.await_rebalance()
    member.send_join(version)
    member.joined("with another")
    other.joined("the other")
    member.sync((member.id, b"1"), (other.id, b"2"))
    other.sync()
    second = Member(run, group, "leader's second life", "one")
    second.join("the leader comes back", version)
    run.ask("heartbeat of the first life", heartbeat(group, member.generation, member.id, "one"), 4)
    run.ask("heartbeat of the first life, no instance", heartbeat(group, member.generation, member.id), 4)
    run.ask("sync of the first life", sync(group, member.generation, member.id, (), "one"), 5)
    run.ask("sync of the second life", sync(group, second.generation, second.id, (), "one"), 5)
    run.ask("heartbeat of the second life", heartbeat(group, second.generation, second.id, "one"), 4)
    third = Member(run, group, "follower's second life", "two")
    third.join("a follower comes back", version)
    run.ask("join of the follower's first life", join(group, other.id, "two"), version)
    run.ask("join of an unknown instance with an id", join(group, third.id, "three"), version)
    run.ask("as described", messages.DescribeGroupsRequest(groups=[group]), 5)
    changed = Member(run, group, "third life", "two", protocols=[("range", SUBSCRIPTION + b"!")])
    changed.join("a follower comes back with other metadata", version)
    other_way = [("other", b"1"), ("range", SUBSCRIPTION)]
    changed = Member(run, group, "fourth life", "two", protocols=other_way)
    changed.join("a follower comes back with one protocol more", version)
    second.how = changed.how = {"protocols": other_way}
    second.send_join(version)
    until(lambda: changed.heartbeat() == REBALANCE_IN_PROGRESS, "the follower to be asked", PATIENCE_S)
    changed.send_join(version)
    second.joined("the leader with the new protocols")
    changed.joined("the follower with the new protocols")
    second.sync((second.id, b"1"), protocol_name="other")
    changed = Member(run, group, "fifth life", "two")
    changed.send_join(version)
    second.await_rebalance()
    second.send_join(version)
    second.joined("a follower came back without the protocol: the leader")
    changed.joined("a follower came back without the protocol")
    run.ask("static members leave", leave(group, ("", "one"), ("", "two"), ("", "three")), 3)
    run.ask("empty", messages.DescribeGroupsRequest(groups=[group]), 5)


def ask_as_others(ask: Callable[..., None], group: str, member: Member) -> None:
    """Requests that name another group, member or generation than those of a stable group, then the right ones."""
    ask("empty group", "", 1, member.id)
    ask("unknown group", "no-such-group", 1, member.id)
    ask("unknown member", group, member.generation, "nobody")
    ask("empty member", group, member.generation, "")
    ask("generation before", group, member.generation - 1, member.id)
    ask("generation to come", group, member.generation + 1, member.id)
    ask("stable", group, member.generation, member.id)


@script(ApiKey.SYNC_GROUP)
def sync_group(run: Run, version: int) -> None:
    group = run.name
    member, other = stable(run, group, "one", "two")
    typed = {"protocol_type": "consumer", "protocol_name": "range"} if version >= 5 else {}

    def ask(label: str, group_id: str, generation: int, member_id: str, **how: Any) -> None:
        how = {**({} if typed else {"protocol_type": None, "protocol_name": None}), **how}
        run.ask(label, sync(group_id, generation, member_id, how.pop("assignments", ()), **how), version)

    ask_as_others(ask, group, member)
    ask("stable, other assignments are not looked at", group, member.generation, member.id, assignments=[("x", b"y")])
    ask("a follower", group, other.generation, other.id)
    ask("unknown instance", group, member.generation, member.id, instance="one")
    if version >= 5:
        ask("another type", group, member.generation, member.id, protocol_type="other")
        ask("another name", group, member.generation, member.id, protocol_name="other")
        ask("no type", group, member.generation, member.id, protocol_type=None)
        ask("no name", group, member.generation, member.id, protocol_name=None)
        ask("empty group, no name", "", member.generation, member.id, protocol_name=None)
    third = Member(run, group, "three")
    third.send_join()
    member.await_rebalance()
    ask("rebalancing", group, member.generation, member.id)
    ask("rebalancing, generation before", group, member.generation - 1, member.id)
    member.send_join()
    other.send_join()
    for each in (member, other, third):
        each.joined()
    how: dict[str, Any] = dict(typed) if typed else {"protocol_type": None, "protocol_name": None}
    run.send(sync(group, third.generation, third.id, (), **how), version, third.name)
    run.send(sync(group, other.generation, other.id, (), **how), version, other.name)
    ask(
        "the leader's",
        group,
        member.generation,
        member.id,
        assignments=[(member.id, b"1"), (third.id, b"3"), ("x", b"")],
    )
    run.receive("the third's", third.name)
    run.receive("the second's, who was not assigned anything", other.name)
    run.ask("left", leave(group, (other.id, None)), 3)
    ask("after leaving", group, other.generation, other.id)


@script(ApiKey.HEARTBEAT)
def heartbeats(run: Run, version: int) -> None:
    group = run.name
    member, other = stable(run, group, "one", "two")

    def ask(label: str, *how: Any) -> None:
        run.ask(label, heartbeat(*how), version)

    ask_as_others(ask, group, member)
    ask("follower", group, other.generation, other.id)
    ask("unknown instance", group, member.generation, member.id, "one")
    third = Member(run, group, "three")
    third.send_join()
    member.await_rebalance()
    ask("rebalancing", group, member.generation, member.id)
    ask("rebalancing, generation before", group, member.generation - 1, member.id)
    ask("of the one that waits", group, -1, third.id)
    member.send_join()
    other.send_join()
    for each in (member, other, third):
        each.joined()
    ask("awaiting the assignment", group, member.generation, member.id)
    ask("awaiting the assignment, generation before", group, member.generation - 1, member.id)
    everyone = [(each.id, None) for each in (member, other, third)]
    run.ask("all leave", leave(group, *everyone), 3)
    ask("empty", group, member.generation, member.id)
    pending = run.quietly(join(f"{group}-pending"), 9)
    run.names.give("pending", pending.member_id)
    ask("with an id, but not a member", f"{group}-pending", -1, pending.member_id)


@script(ApiKey.LEAVE_GROUP)
def leave_group(run: Run, version: int) -> None:
    group = run.name
    request = messages.LeaveGroupRequest

    def ask(label: str, group_id: str, *members: tuple[str, str | None]) -> None:
        if version >= MEMBERS_LEAVE:
            run.ask(label, leave(group_id, *members), version)
        elif len(members) == 1 and members[0][1] is None:
            run.ask(label, request(group_id=group_id, member_id=members[0][0]), version)

    member, other, third = stable(run, group, "one", "two", "three")
    ask("empty group", "", (member.id, None))
    ask("unknown group", "no-such-group", (member.id, None))
    ask("unknown member", group, ("nobody", None))
    ask("empty member", group, ("", None))
    ask("nobody", group)
    ask("instance without a member", group, ("", "one"))
    ask("member with an unknown instance", group, (member.id, "one"))
    ask("a follower", group, (other.id, None))
    run.ask("rebalancing", heartbeat(group, member.generation, member.id), 4)
    ask("a follower again", group, (other.id, None))
    ask("two at once, one of them twice", group, (member.id, None), ("nobody", None), (member.id, None))
    ask("the last", group, (third.id, None))
    run.ask("empty", messages.DescribeGroupsRequest(groups=[group]), 5)
    ask("empty group now", group, (third.id, None))
    pending = run.quietly(join(group), 9)
    run.names.give("pending", pending.member_id)
    ask("with an id, but not a member", group, (pending.member_id, None))
    ask("the same again", group, (pending.member_id, None))
    static = Member(run, f"{group}-static", "static", "i")
    gather([static])
    ask("static by its member id", static.group, (static.id, None))
    static = Member(run, f"{group}-static", "static again", "i")
    gather([static])
    ask("static with the wrong member id", static.group, ("nobody", "i"))
    ask("static by its instance id", static.group, ("", "i"))
    ask("static by its instance id again", static.group, ("", "i"))
    static = Member(run, f"{group}-static", "static, third", "i")
    gather([static])
    ask("static by both", static.group, (static.id, "i"))


@script(ApiKey.HEARTBEAT)
def sessions_that_end(run: Run, version: int) -> None:
    """Members without a heartbeat for the session timeout, and those that do not rejoin in time, are removed."""
    group = run.name
    # Each timeout is longer than a member takes to join and to sync, even on a busy machine.
    short_ms = 1_000
    member = Member(run, group, "one", session_ms=short_ms, rebalance_ms=short_ms)
    gather([member])

    def gone() -> bool:
        described = run.quietly(messages.DescribeGroupsRequest(groups=[group]), 5).groups[0]
        return not described.members

    until(gone, "the session to end", PATIENCE_S)
    run.ask("its heartbeat", heartbeat(group, member.generation, member.id), version)
    run.ask("as described", messages.DescribeGroupsRequest(groups=[group]), 5)
    slow, quick = (Member(run, f"{group}-slow", name, rebalance_ms=short_ms) for name in ("slow", "quick"))
    gather([slow])
    quick.send_join()
    quick.joined("joined without the slow one")
    run.ask("the slow one's heartbeat", heartbeat(slow.group, slow.generation, slow.id), version)
