"""A long conversation about groups over sockets, which any Kafka broker can run; its responses are recorded.

`python -m tests.broker_cy.coordinator_services.group_script` runs it on Apache Kafka 4.3.1 and writes the fixture.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from pathlib import Path
from typing import Any
from uuid import UUID

from broker_cy.wire import messages
from tests.broker_cy.coordinator_services.group_client import (
    ANSWER_S,
    Script,
    commit,
    delete_offsets,
    fetch,
    heartbeat,
    join,
    leave,
    old_fetch,
    subscription,
    sync,
)

FIXTURE = Path(__file__).parents[2] / "fixtures" / "group_answers_4.3.1.json"
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1",
    "group.max.size": "4",
    "offsets.topic.num.partitions": "3",
}

m = messages


async def play(host: str, port: int) -> list[list[Any]]:
    """Return all responses of the broker at that address, as (label, response)."""
    script = Script(host, port)
    await script.connect()
    try:
        topics = [m.CreateTopicsRequest.CreatableTopic(name=n, num_partitions=2, replication_factor=1) for n in "tu"]
        await script.connections[0].call(m.CreateTopicsRequest(topics=topics, timeout_ms=10_000), 7)
        await script.until_coordinated([f"g{i}" for i in range(9)])
        for part in (_finding, _refusals, _first_life, _old_joins, _two_members, _statics, _limits, _offsets, _admin):
            await part(script)
    finally:
        await script.close()
    return script.told


async def _finding(s: Script) -> None:
    for version in range(4):
        await s.ask("find", m.FindCoordinatorRequest(key="g0"), version)
    for version in (4, 5, 6):
        await s.ask("find", m.FindCoordinatorRequest(coordinator_keys=["g0", "g1"]), version)
    await s.ask("find share before it is known", m.FindCoordinatorRequest(key_type=2, coordinator_keys=["x"]), 5)


async def _refusals(s: Script) -> None:
    for version in range(10):
        old: dict[str, Any] = {"rebalance_timeout_ms": -1} if version == 0 else {}
        await s.ask("join without group", join("", "x", **old), version)
        await s.ask("join with a long session", join("g0", "x", session_timeout_ms=1_800_001, **old), version)
        await s.ask("join as nobody", join("g0", "ghost", **old), version)
    await s.ask("join without protocols", join("g0", protocols=()), 3)
    await s.ask("join without type", join("g0", protocol_type=""), 3)
    for version in range(5):
        await s.ask("heartbeat of nobody", heartbeat("g1", "ghost", 1), version)
    await s.ask("heartbeat without group", heartbeat("", "ghost", 1), 4)
    for version in range(3):
        await s.ask("leave of nobody", m.LeaveGroupRequest(group_id="g1", member_id="ghost"), version)
    for version in (3, 4, 5):
        await s.ask("leave of nobody", leave("g1", ("ghost", None), ("", "static"), ("", None)), version)
    await s.ask("leave without group", leave("", ("ghost", None)), 5)
    for version in range(5):
        await s.ask("sync of nobody", sync("g1", "ghost", 1), version)
    await s.ask("sync without protocol", sync("g1", "ghost", 1), 5)
    await s.ask("sync without group", sync("", "ghost", 1), 4)


async def _first_life(s: Script) -> None:
    """One member, in each version of its requests."""
    asked = await s.ask("join", join("g2"), 9)
    await s.ask("describe with an id given", m.DescribeGroupsRequest(groups=["g2"]), 6)
    await s.ask("join with id", join("g2", asked.member_id, reason="why not"), 9)
    me = asked.member_id
    await s.ask("join again", join("g2", me), 9)
    await s.ask("commit while completing", commit("g2", ("t", 0, 1), generation_id_or_member_epoch=1, member_id=me), 8)
    await s.ask("heartbeat while completing", heartbeat("g2", me, 1), 4)
    kind: dict[str, Any] = {"protocol_type": "consumer", "protocol_name": "range"}
    await s.ask("sync of another generation", sync("g2", me, 2, **kind), 5)
    await s.ask("sync of another type", sync("g2", me, 1, protocol_type="connect", protocol_name="range"), 5)
    await s.ask("sync of another protocol", sync("g2", me, 1, protocol_type="consumer", protocol_name="own"), 5)
    await s.ask("describe while completing", m.DescribeGroupsRequest(groups=["g2"]), 6)
    await s.ask("sync", sync("g2", me, 1, {me: b"mine"}, **kind), 5)
    await s.ask("sync again", sync("g2", me, 1), 4)
    for version in range(7):
        await s.ask("describe", m.DescribeGroupsRequest(groups=["g2", "nobody"]), version)
    await s.ask("heartbeat", heartbeat("g2", me, 1), 4)
    await s.ask("heartbeat of another generation", heartbeat("g2", me, 0), 4)
    await s.ask("heartbeat of a static", heartbeat("g2", me, 1, group_instance_id="x"), 4)
    await s.ask("join of another type", join("g2", protocol_type="connect"), 9)
    await s.ask("join of another protocol", join("g2", protocols=(("own", b""),)), 9)
    mine = {"generation_id_or_member_epoch": 1, "member_id": me}
    for version in range(2, 10):
        await s.ask("commit", commit("g2", ("t", 0, version), **mine), version)
    await s.ask("commit of nobody", commit("g2", ("t", 0, 1), generation_id_or_member_epoch=1, member_id="x"), 9)
    later = {**mine, "generation_id_or_member_epoch": 5}
    await s.ask("commit of another generation", commit("g2", ("t", 0, 1), **later), 9)
    await s.ask("commit without member", commit("g2", ("t", 0, 1)), 9)
    await s.ask("commit with generation only", commit("g2", ("t", 0, 1), generation_id_or_member_epoch=1), 9)
    await s.ask("delete offsets that are read", delete_offsets("g2", {"t": [0], "u": [0]}), 0)
    await s.ask("delete group with a member", m.DeleteGroupsRequest(groups_names=["g2"]), 2)
    await s.ask("leader joins again", join("g2", me), 9)
    await s.ask("sync with nothing assigned", sync("g2", me, 2), 4)
    await s.ask("leave", leave("g2", (me, None)), 5)
    await s.ask("heartbeat after leaving", heartbeat("g2", me, 2), 4)
    await s.ask("join after leaving", join("g2", me), 9)
    await s.ask("sync in an empty group", sync("g2", me, 3), 4)
    await s.ask("describe empty", m.DescribeGroupsRequest(groups=["g2"]), 6)
    gone = {"generation_id_or_member_epoch": 3, "member_id": me}
    await s.ask("commit of a member in an empty group", commit("g2", ("t", 0, 1), **gone), 9)
    await s.ask("commit without member in an empty group", commit("g2", ("t", 0, 77)), 9)


async def _old_joins(s: Script) -> None:
    for version in range(4):
        old: dict[str, Any] = {"rebalance_timeout_ms": -1} if version == 0 else {}
        joined = await s.ask("join at once", join("g3", **old), version)
        me, generation = joined.member_id, joined.generation_id
        await s.ask("sync", sync("g3", me, generation, {me: b"x"}), min(version, 2))
        left = m.LeaveGroupRequest(group_id="g3", member_id=joined.member_id)
        await s.ask("leave", left, min(version, 2))


async def _two_members(s: Script) -> None:
    other = await s.connect()
    first = await s.ask("join", join("g4"), 9)
    await s.ask("join with id", join("g4", first.member_id), 9)
    me = first.member_id
    await s.ask("sync", sync("g4", me, 1, {me: b"all"}), 4)
    second = await s.ask("second asks", join("g4"), 9, other)
    you = second.member_id
    waiting = asyncio.ensure_future(other.call(join("g4", you), 9))
    await _until_rebalancing(s, "g4", me, 1)
    await s.ask("describe while preparing", m.DescribeGroupsRequest(groups=["g4"]), 6)
    await s.ask("sync while preparing", sync("g4", me, 1), 4)
    await s.ask("commit while preparing", commit("g4", ("t", 1, 5), generation_id_or_member_epoch=1, member_id=me), 9)
    await s.ask("first joins again", join("g4", me), 9)
    s.note("second joined", await waiting)
    waiting = asyncio.ensure_future(other.call(sync("g4", you, 2), 4))
    await s.ask("leader assigns", sync("g4", me, 2, {me: b"half", you: b"other half"}), 4)
    s.note("second is assigned", await waiting)
    await s.ask("follower joins with the same", join("g4", you), 9)
    waiting = asyncio.ensure_future(other.call(join("g4", you, protocols=(("range", subscription("u")),)), 9))
    await _until_rebalancing(s, "g4", me, 2)
    await s.ask("leave while the other waits", leave("g4", (me, None)), 5)
    s.note("second leads", await waiting)
    await s.ask("leave", leave("g4", (you, None)), 5)


async def _until_rebalancing(s: Script, group_id: str, member_id: str, generation: int) -> None:
    """Wait until the group rebalances."""
    async with asyncio.timeout(ANSWER_S):
        while (await s.connections[0].call(heartbeat(group_id, member_id, generation), 4)).error_code != 27:
            await asyncio.sleep(0.01)


async def _statics(s: Script) -> None:
    one = await s.ask("static joins", join("g5", group_instance_id="one"), 9)
    await s.ask("static syncs", sync("g5", one.member_id, 1, {one.member_id: b"x"}, group_instance_id="one"), 4)
    for version in (9, 8, 5):
        back = await s.ask("static comes back", join("g5", group_instance_id="one"), version)
        await s.ask("old one is fenced", heartbeat("g5", one.member_id, 1, group_instance_id="one"), 4)
        await s.ask("old one syncs", sync("g5", one.member_id, 1, group_instance_id="one"), 4)
        await s.ask("old one joins", join("g5", one.member_id, group_instance_id="one"), 9)
        fenced = {"generation_id_or_member_epoch": 1, "member_id": one.member_id, "group_instance_id": "one"}
        await s.ask("old one commits", commit("g5", ("t", 0, 1), **fenced), 9)
        await s.ask("old one leaves", leave("g5", (one.member_id, "one")), 5)
        await s.ask("new one syncs", sync("g5", back.member_id, 1, group_instance_id="one"), 4)
        one = back
    await s.ask("member id without instance", heartbeat("g5", one.member_id, 1), 4)
    await s.ask("unknown instance", heartbeat("g5", one.member_id, 1, group_instance_id="two"), 4)
    changed = join("g5", group_instance_id="one", protocols=(("own", b""),))
    await s.ask("static changes its protocol", changed, 9)
    other = (("own", b""), ("range", b""))
    await s.ask("static with a new protocol beside it", join("g5", group_instance_id="one", protocols=other), 9)
    await s.ask("describe statics", m.DescribeGroupsRequest(groups=["g5"]), 6)
    await s.ask("removed by an administrator", leave("g5", ("", "one"), ("", "two")), 5)


async def _limits(s: Script) -> None:
    """group.max.size is 4."""
    others = [await s.connect() for _ in range(5)]
    first = await s.ask("join", join("g6"), 3)
    waiting = [asyncio.ensure_future(other.call(join("g6"), 3)) for other in others[:3]]
    async with asyncio.timeout(ANSWER_S):
        while len((await others[4].call(m.DescribeGroupsRequest(groups=["g6"]), 5)).groups[0].members) < 4:
            await asyncio.sleep(0.01)
    waiting.append(asyncio.ensure_future(s.connections[0].call(join("g6", first.member_id), 3)))
    joined = [await future for future in waiting]
    s.told.append(["all joined", sorted(len(answer.members) for answer in joined)])
    await s.ask("one too many", join("g6"), 3, others[3])
    await s.ask("one too many, with an id", join("g6"), 9, others[3])
    await s.ask("a member may", join("g6", first.member_id), 3)


async def _offsets(s: Script) -> None:
    topic_ids = {
        topic.name: topic.topic_id for topic in (await s.connections[0].call(m.MetadataRequest(topics=None), 12)).topics
    }
    await s.ask("commit for what is not there", commit("g7", ("t", 0, 1), ("t", 9, 1), ("absent", 0, 1)), 9)
    await s.ask("commit with metadata", commit("g7", ("t", 1, 2), metadata="note"), 9)
    await s.ask("commit with null metadata", commit("g7", ("u", 1, 2), metadata=None), 9)
    await s.ask("commit with too much metadata", commit("g7", ("u", 0, 2), metadata="x" * 4097), 9)
    stranger: dict[str, Any] = {"generation_id_or_member_epoch": 1, "member_id": "x"}
    for version in (8, 9):
        await s.ask("commit in an unknown group", commit("g8", ("t", 0, 1), **stranger), version)
    await s.ask("commit with an old retention", commit("g7", ("u", 0, 5), retention_time_ms=100_000), 4)
    by_id = commit("g7", ("t", 0, 10), ("t", 7, 1), ("u", 0, 1))
    for item, name in zip(by_id.topics, ("t", "t", None), strict=True):
        item.name, item.topic_id = "", topic_ids[name] if name else UUID(int=7)
    s.names[str(UUID(int=7))] = "<unknown>"
    await s.ask("commit by id", by_id, 10)
    wanted = {"t": [0, 1, 9], "absent": [0]}
    for version in range(1, 8):
        await s.ask("fetch", old_fetch("g7", wanted), version)
        await s.ask("fetch of an unknown group", old_fetch("never", wanted), version)
    for version in range(2, 8):
        await s.ask("fetch all", old_fetch("g7", None), version)
    for version in (8, 9):
        await s.ask("fetch", fetch("g7", wanted), version)
        await s.ask("fetch all", fetch("g7", None), version)
        await s.ask("fetch all of an unknown group", fetch("never", None), version)
    named = fetch("g7", {"": [0, 1]})
    named.groups[0].topics[0].topic_id = topic_ids["t"]
    await s.ask("fetch by id", named, 10)
    named.groups[0].topics[0].topic_id = UUID(int=7)
    await s.ask("fetch by an unknown id", named, 10)
    await s.ask("fetch all by id", fetch("g7", None), 10)
    await s.ask("fetch with a member of a classic group", fetch("g7", {"t": [0]}, member_id="x", member_epoch=3), 9)
    await s.ask("delete offsets", delete_offsets("g7", {"t": [0, 9], "absent": [0]}), 0)
    await s.ask("delete offsets of an unknown group", delete_offsets("never", {"t": [0]}), 0)
    await s.ask("fetch after deleting", fetch("g7", None), 9)


async def _admin(s: Script) -> None:
    for version in range(6):
        await s.ask("list", m.ListGroupsRequest(), version)
    await s.ask("list by state", m.ListGroupsRequest(states_filter=["EMPTY", "nonsense"]), 4)
    await s.ask("list by type", m.ListGroupsRequest(types_filter=["Classic"]), 5)
    await s.ask("list of another type", m.ListGroupsRequest(types_filter=["consumer", "what"]), 5)
    await s.ask("describe nothing", m.DescribeGroupsRequest(groups=[""]), 6)
    asked = m.DescribeGroupsRequest(groups=["g7"], include_authorized_operations=True)
    await s.ask("describe what I may", asked, 5)
    for version in range(3):
        await s.ask("delete", m.DeleteGroupsRequest(groups_names=["g7", "g7", "g6", "absent"]), version)
    await s.ask("list after deleting", m.ListGroupsRequest(), 5)


def main() -> None:
    """Record the responses of Apache Kafka."""
    from tests.support.kafka_peer import KafkaPeer

    with tempfile.TemporaryDirectory() as directory:
        peer = KafkaPeer(Path(directory), SETTINGS)
        try:
            peer.start()
            told = asyncio.run(play(peer.host, peer.port))
        finally:
            peer.kill()
    lines = ",\n".join(json.dumps(entry, sort_keys=True) for entry in told)
    FIXTURE.write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
