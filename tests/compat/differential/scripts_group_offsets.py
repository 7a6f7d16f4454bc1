"""OffsetCommit, OffsetFetch, OffsetDelete, DescribeGroups, ListGroups, DeleteGroups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey
from tests.compat.differential.build import id_of
from tests.compat.differential.members import SUBSCRIPTION, Member, gather, join, leave, stable
from tests.compat.differential.script import PATIENCE_S, Run, script
from tests.support.wait import until

COMMIT_BY_ID = FETCH_BY_ID = 10
GROUPS = 8
Commits = Mapping[str, Sequence[tuple[int, int] | tuple[int, int, str | None]]]


def commit(
    run: Run,
    version: int,
    group: str,
    topics: Commits,
    generation: int = -1,
    member_id: str = "",
    **fields: Any,
) -> messages.OffsetCommitRequest:
    """Partitions as (index, offset) or (index, offset, metadata)."""
    request = messages.OffsetCommitRequest
    epoch = fields.pop("leader_epoch", -1)
    asked = []
    for name, parts in topics.items():
        partitions = [
            request.OffsetCommitRequestPartition(
                partition_index=index,
                committed_offset=offset,
                committed_leader_epoch=epoch,
                committed_metadata=metadata[0] if metadata else "",
            )
            for index, offset, *metadata in parts
        ]
        topic = request.OffsetCommitRequestTopic(name=name, partitions=partitions)
        if version >= COMMIT_BY_ID:
            topic.topic_id = id_of(run, name)
        asked.append(topic)
    return request(
        group_id=group, generation_id_or_member_epoch=generation, member_id=member_id, topics=asked, **fields
    )


def committed(
    run: Run, version: int, group: str, topics: Mapping[str, Sequence[int]] | None, **fields: Any
) -> messages.OffsetFetchRequest:
    """The request for one group; all of its offsets if `topics` is None."""
    request = messages.OffsetFetchRequest
    if version < GROUPS:
        old = None
        if topics is not None:
            old = [request.OffsetFetchRequestTopic(name=n, partition_indexes=list(p)) for n, p in topics.items()]
        return request(group_id=group, topics=old, **fields)
    stable_only = fields.pop("require_stable", False)
    return request(groups=[_group(run, version, group, topics, **fields)], require_stable=stable_only)


def _make_nameless(run: Run, topic: str) -> None:
    """Other scripts may have created the group without a name, or deleted it."""
    run.quietly(commit(run, 9, "", {topic: [(0, 1)]}), 9)


def _group(run: Run, version: int, group: str, topics: Mapping[str, Sequence[int]] | None, **fields: Any) -> Any:
    request = messages.OffsetFetchRequest
    asked = None
    if topics is not None:
        asked = [
            request.OffsetFetchRequestTopics(name=n, topic_id=id_of(run, n), partition_indexes=list(p))
            if version >= FETCH_BY_ID
            else request.OffsetFetchRequestTopics(name=n, partition_indexes=list(p))
            for n, p in topics.items()
        ]
    return request.OffsetFetchRequestGroup(group_id=group, topics=asked, **fields)


@script(ApiKey.OFFSET_COMMIT)
def commit_offsets(run: Run, version: int) -> None:
    group = run.name
    name = run.topic(partitions=3)
    other = run.topic("-other")

    def ask(label: str, group_id: str, topics: Commits, *who: Any, **fields: Any) -> None:
        try:
            request = commit(run, version, group_id, topics, *who, **fields)
        except TypeError:
            run.left_out.add(label)
            return
        run.ask(label, request, version)

    ask("alone", group, {name: [(0, 10)]})
    ask("alone again", group, {name: [(0, 11, "words"), (1, 5, None)], other: [(0, 1)]})
    ask("empty group", "", {name: [(0, 1)]})
    ask("unknown topic", group, {"no-such-topic": [(0, 1)]})
    ask("unknown partition", group, {name: [(9, 1), (-1, 1)]})
    ask("some of each", group, {"no-such-topic": [(0, 1)], name: [(2, 7), (9, 1)], other: [(0, 2)]})
    ask("no topics", group, {})
    ask("no partitions", group, {name: []})
    ask("internal topic", group, {"__consumer_offsets": [(0, 1)]})
    ask("metadata of 4096", group, {name: [(0, 12, "x" * 4096)]})
    ask("metadata of 4097", group, {name: [(0, 13, "x" * 4097), (1, 14, "")]})
    ask("metadata of 4096 that is 8192 bytes", group, {name: [(0, 15, "ä" * 4096)]})
    ask("offset -1", group, {name: [(1, -1)]})
    ask("offset -5", group, {name: [(1, -5)]})
    ask("leader epoch", group, {name: [(1, 20)]}, leader_epoch=7)
    ask("leader epoch -7", group, {name: [(2, 21)]}, leader_epoch=-7)
    ask("partition twice", group, {name: [(1, 22), (1, 23)]})
    ask("retention", group, {name: [(2, 24)]}, retention_time_ms=10**9)
    ask("generation 3", group, {name: [(0, 99)]}, 3, "m")
    ask("generation 0", group, {name: [(0, 99)]}, 0, "")
    ask("member without generation", group, {name: [(0, 98)]}, -1, "m")
    ask("instance without member", group, {name: [(0, 97)]}, -1, "", group_instance_id="i")
    ask("unknown group with a generation", f"{group}-none", {name: [(0, 1)]}, 1, "m")
    run.ask("what is committed", committed(run, 9, group, None), 9)


@script(ApiKey.OFFSET_COMMIT)
def commit_as_member(run: Run, version: int) -> None:
    group = run.name
    name = run.topic()
    member, other = stable(run, group, "one", "two")

    def ask(label: str, *who: Any, topics: Commits | None = None, **fields: Any) -> None:
        request = commit(run, version, group, {name: [(0, 1)]} if topics is None else topics, *who, **fields)
        run.ask(label, request, version)

    ask("member", member.generation, member.id)
    ask("follower", other.generation, other.id)
    ask("generation before", member.generation - 1, member.id)
    ask("generation to come", member.generation + 1, member.id)
    ask("unknown member", member.generation, "nobody")
    ask("empty member", member.generation, "")
    ask("no generation", -1, member.id)
    ask("nobody")
    ask("unknown instance", member.generation, member.id, group_instance_id="i")
    ask("unknown topic", member.generation, member.id, topics={"no-such-topic": [(0, 1)]})
    ask("unknown topic, unknown member", member.generation, "nobody", topics={"no-such-topic": [(0, 1)]})
    ask("no topics, unknown member", member.generation, "nobody", topics={})
    third = Member(run, group, "three")
    third.send_join()
    member.await_rebalance()
    ask("rebalancing", member.generation, member.id)
    ask("rebalancing, nobody")
    member.send_join()
    other.send_join()
    for each in (member, other, third):
        each.joined()
    ask("awaiting the assignment", member.generation, member.id)
    ask("awaiting the assignment, generation before", member.generation - 1, member.id)
    run.ask("all leave", leave(group, *((each.id, None) for each in (member, other, third))), 3)
    ask("left", member.generation, member.id)
    ask("from outside")
    static = Member(run, f"{group}-static", "static", "i")
    gather([static])
    request = commit(run, version, static.group, {name: [(0, 1)]}, static.generation, static.id)
    run.ask("static, no instance", request, version)
    if version >= 7:
        for label, member_id, instance in (
            ("static", static.id, "i"),
            ("static, another member id", "nobody", "i"),
            ("static, another instance", static.id, "j"),
        ):
            request = commit(
                run, version, static.group, {name: [(0, 1)]}, static.generation, member_id, group_instance_id=instance
            )
            run.ask(label, request, version)


@script(ApiKey.OFFSET_COMMIT, broker="auto")
def commit_long_metadata(run: Run, version: int) -> None:
    name = run.topic(partitions=2)
    topics: Commits = {name: [(0, 1, "0123456789"), (1, 1, "0123456789a")]}
    run.ask("offset.metadata.max.bytes is 10", commit(run, version, run.name, topics), version)


@script(ApiKey.OFFSET_FETCH)
def fetch_offsets(run: Run, version: int) -> None:
    group = run.name
    name = run.topic(partitions=3)
    other = run.topic("-other")
    lost = run.topic("-lost")
    topics: Commits = {name: [(0, 10, "words"), (1, 11)], other: [(0, 12)], lost: [(0, 13)]}
    run.quietly(commit(run, 9, group, topics, leader_epoch=3), 9)

    def ask(label: str, group_id: str, topics: Mapping[str, Sequence[int]] | None, **fields: Any) -> None:
        run.ask(label, committed(run, version, group_id, topics, **fields), version)

    def offset_of(topic: str) -> int:
        answer = run.quietly(committed(run, 9, group, {topic: [0]}), 9)
        return int(answer.groups[0].topics[0].partitions[0].committed_offset)

    ask("one", group, {name: [0]})
    ask("some without", group, {name: [0, 1, 2], other: [0]})
    ask("not in order", group, {other: [0], name: [1, 0]})
    ask("all", group, None)
    ask("unknown partition", group, {name: [9, -1]})
    ask("unknown topic", group, {"no-such-topic": [0]})
    ask("unknown and known topic", group, {"no-such-topic": [0], name: [0]})
    ask("partition twice", group, {name: [0, 0]})
    ask("no topics", group, {})
    ask("no partitions", group, {name: []})
    ask("unknown group", f"{group}-none", {name: [0]})
    ask("all of an unknown group", f"{group}-none", None)
    ask("empty group", "", {name: [0]})
    ask("stable", group, {name: [0, 2]}, require_stable=True)
    if version >= GROUPS:
        ask("member", group, {name: [0]}, member_id="m", member_epoch=3)
        ask("member of an unknown group", f"{group}-none", {name: [0]}, member_id="m", member_epoch=3)
    run.delete_topic(lost)
    until(lambda: offset_of(lost) == -1, "the offsets of the deleted topic to be gone", PATIENCE_S)
    ask("deleted topic", group, {lost: [0]})
    ask("all, after the deletion", group, None)
    assert run.topic("-lost") == lost
    ask("there again", group, {lost: [0]})
    if version >= GROUPS:
        request = messages.OffsetFetchRequest
        groups = [
            _group(run, version, group, {name: [0]}),
            _group(run, version, f"{group}-none", None),
            _group(run, version, group, None),
            _group(run, version, "", {name: [0]}),
        ]
        run.ask("several groups", request(groups=groups), version)
        run.ask("no groups", request(groups=[]), version)


@script(ApiKey.OFFSET_DELETE)
def delete_offsets(run: Run, version: int) -> None:
    group = run.name
    name = run.topic(partitions=3)
    other = run.topic("-other")
    request = messages.OffsetDeleteRequest

    def ask(label: str, group_id: str, topics: Mapping[str, Sequence[int]]) -> None:
        asked = [
            request.OffsetDeleteRequestTopic(
                name=n, partitions=[request.OffsetDeleteRequestPartition(partition_index=i) for i in p]
            )
            for n, p in topics.items()
        ]
        run.ask(label, request(group_id=group_id, topics=asked), version)

    ask("unknown group", group, {name: [0]})
    ask("unknown group, unknown topic", group, {"no-such-topic": [0]})
    ask("unknown group, no topics", group, {})
    _make_nameless(run, name)
    ask("empty group", "", {name: [0]})
    run.quietly(commit(run, 9, group, {name: [(0, 1), (1, 1), (2, 1)], other: [(0, 1)]}), 9)
    ask("one", group, {name: [0]})
    ask("one again", group, {name: [0]})
    ask("unknown partition", group, {name: [1, 9]})
    ask("unknown topic", group, {"no-such-topic": [0], other: [0]})
    ask("no topics", group, {})
    ask("no partitions", group, {name: []})
    ask("partition twice", group, {name: [2, 2]})
    run.ask("what is left", committed(run, 9, group, None), 9)

    reading = f"{group}-reading"
    (member,) = stable(run, reading, "one", protocols=[("range", _subscription(name))])
    run.quietly(commit(run, 9, reading, {name: [(0, 1)], other: [(0, 1)]}, member.generation, member.id), 9)
    ask("topic that is read", reading, {name: [0], other: [0]})
    run.ask("what is left of a group that reads", committed(run, 9, reading, None), 9)
    foreign = f"{group}-foreign"
    stable(run, foreign, "two", protocols=[("p", b"?")], protocol_type="connect")
    ask("group of another kind", foreign, {name: [0]})


def _subscription(*topics: str) -> bytes:
    """Version 0 of a consumer's metadata."""
    names = b"".join(len(name).to_bytes(2, "big") + name.encode() for name in topics)
    return b"\0\0" + len(topics).to_bytes(4, "big") + names + b"\xff\xff\xff\xff"


@script(ApiKey.DESCRIBE_GROUPS)
def describe_groups(run: Run, version: int) -> None:
    group = run.name
    name = run.topic()
    request = messages.DescribeGroupsRequest
    operations = {"include_authorized_operations": True}

    def ask(label: str, *groups: str, **fields: Any) -> None:
        run.ask(label, request(groups=list(groups), **fields), version)

    ask("unknown", f"{group}-none")
    _make_nameless(run, name)
    ask("empty id", "")
    ask("none")
    run.quietly(commit(run, 9, f"{group}-simple", {name: [(0, 1)]}), 9)
    ask("without members ever", f"{group}-simple")
    member, other = stable(run, group, "one", "two")
    ask("stable", group)
    ask("several", group, f"{group}-none", f"{group}-simple", group)
    ask("operations", group, **operations)
    ask("operations of an unknown one", f"{group}-none", **operations)
    third = Member(run, group, "three")
    third.send_join()
    member.await_rebalance()
    ask("rebalancing", group)
    member.send_join()
    other.send_join()
    for each in (member, other, third):
        each.joined()
    ask("awaiting the assignment", group)
    run.quietly(leave(group, *((each.id, None) for each in (member, other, third))), 3)
    ask("empty", group)
    static = Member(run, f"{group}-static", "static", "i", protocols=[("a", SUBSCRIPTION), ("b", b"2")])
    static.join()
    static.sync((static.id, b"x"), protocol_name="a")
    ask("static", static.group)
    pending = run.quietly(join(f"{group}-pending"), 9)
    run.names.give("pending", pending.member_id)
    ask("only an id was given", f"{group}-pending")


@script(ApiKey.LIST_GROUPS)
def list_groups(run: Run, version: int) -> None:
    group = run.name
    name = run.topic()
    request = messages.ListGroupsRequest

    def ask(label: str, **fields: Any) -> None:
        if not run.offer(label, request(**fields), version):
            return
        answer = run.answer(label)
        assert not isinstance(answer, str)
        # Kafka shows the pending offset only after a later write.
        mine = [each for each in answer.groups if each.group_id.startswith(group)]
        answer.groups = [each for each in mine if not each.group_id.endswith("-pending")]
        run.record(label, answer)

    ask("none yet")
    run.quietly(commit(run, 9, f"{group}-simple", {name: [(0, 1)]}), 9)
    member, other = stable(run, f"{group}-stable", "one", "two")
    stable(run, f"{group}-connect", "connect", protocols=[("p", b"?")], protocol_type="connect")
    waiting = Member(run, f"{group}-waiting", "waiting")
    waiting.join()
    run.quietly(join(f"{group}-pending"), 9)
    ask("all")
    for states in (
        ["Stable"],
        ["stable", "EMPTY"],
        ["Dead"],
        ["nonsense"],
        ["CompletingRebalance"],
        [""],
        [" Stable "],
    ):
        ask(f"states {states}", states_filter=states)
    for types in (["classic"], ["Classic"], ["consumer"], ["share", "classic"], ["nonsense"], [""]):
        ask(f"types {types}", types_filter=types)
    ask("states and types", states_filter=["Empty"], types_filter=["classic"])
    third = Member(run, f"{group}-stable", "three")
    third.send_join()
    member.await_rebalance()
    ask("rebalancing")
    run.quietly(leave(f"{group}-stable", (member.id, None), (other.id, None)), 3)
    third.joined()


@script(ApiKey.DELETE_GROUPS)
def delete_groups(run: Run, version: int) -> None:
    group = run.name
    name = run.topic()
    request = messages.DeleteGroupsRequest

    def ask(label: str, *groups: str) -> None:
        run.ask(label, request(groups_names=list(groups)), version)

    ask("none")
    ask("unknown", f"{group}-none")
    _make_nameless(run, name)
    ask("empty id", "")
    run.quietly(commit(run, 9, f"{group}-simple", {name: [(0, 1)]}), 9)
    ask("simple, unknown, simple", f"{group}-simple", f"{group}-none", f"{group}-simple")
    run.ask("its offsets", committed(run, 9, f"{group}-simple", None), 9)
    ask("simple again", f"{group}-simple")
    (member,) = stable(run, group, "one")
    run.quietly(commit(run, 9, group, {name: [(0, 1)]}, member.generation, member.id), 9)
    ask("with a member", group)
    run.quietly(leave(group, (member.id, None)), 3)
    ask("empty", group)
    run.ask("offsets of the empty one", committed(run, 9, group, None), 9)
    run.ask("described", messages.DescribeGroupsRequest(groups=[group]), 6)
    pending = run.quietly(join(f"{group}-pending"), 9)
    run.names.give("pending", pending.member_id)
    ask("only an id was given", f"{group}-pending")
