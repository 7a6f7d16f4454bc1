"""Heartbeats and descriptions of consumer, share and streams groups with unusual values, in each state of a group."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey
from broker_cy.wire.layout import Message
from tests.compat.differential.build import UNKNOWN_ID, id_of
from tests.compat.differential.members import Member, leave, stable
from tests.compat.differential.script import PATIENCE_S, Run, script
from tests.compat.differential.variants import INT32_MAX, INT32_MIN, Fields, Pools, pool, variants
from tests.support.wait import until

ABSENT_TOPIC = "absent"
LONG = "m" * 37
# Java's trim removes control characters and spaces of ASCII, and no other ones.
GROUP_IDS = pool("", " ", "\t\n", wide_space="\u2003", long="g" * 1_000)
MEMBER_IDS = pool("", " ", "\0", "other", long=LONG, astral="\U0001f600" * 18, too_astral="\U0001f600" * 19)
EPOCHS = pool(INT32_MIN, -3, -2, -1, 0, 1, 2, 3, INT32_MAX)
TIMEOUTS = pool(INT32_MIN, -2, -1, 0, 1, INT32_MAX)


def _cases(pools: Pools, seed: int, combinations: int) -> Iterator[tuple[int, str, Fields]]:
    """The variants with their numbers, without those that make a group under a name that other scripts use."""
    shared = {GROUP_IDS["wide_space"], GROUP_IDS["long"]}
    for number, (label, fields) in enumerate(variants(pools, seed, combinations)):
        if fields.get("group_id") not in shared:
            yield number, label, fields


def names_pool(topic: str) -> dict[str, Any]:
    return {
        **pool(None, [], [""], [ABSENT_TOPIC], ["bad name!"], ["__consumer_offsets"], [".."]),
        "topic": [topic],
        "twice": [topic, topic],
        "topic and absent": [topic, ABSENT_TOPIC],
    }


# ---- consumer groups


def owned(*parts: tuple[uuid.UUID, list[int]]) -> list[Any]:
    request = messages.ConsumerGroupHeartbeatRequest
    return [request.TopicPartitions(topic_id=topic_id, partitions=indexes) for topic_id, indexes in parts]


def consumer_pools(run: Run, topic: str) -> Pools:
    known = id_of(run, topic)
    return {
        "group_id": GROUP_IDS,
        "member_id": MEMBER_IDS,
        "member_epoch": EPOCHS,
        "instance_id": pool("", " ", "\t", "i", "j", long="i" * 300),
        "rack_id": pool("", " ", "r"),
        "rebalance_timeout_ms": TIMEOUTS,
        "subscribed_topic_names": names_pool(topic),
        "subscribed_topic_regex": pool(
            None, "", " ", "[", "(", ")", "a**", "(?=a)", "\\1", "absent.*", "a{1001}", "\\C"
        ),
        "server_assignor": pool("", " ", "uniform", "range", "RANGE", "none"),
        "topic_partitions": {
            **pool(None, []),
            "one": owned((known, [0])),
            "both": owned((known, [0, 1])),
            "too many": owned((known, [0, 1, 2])),
            "negative": owned((known, [-1])),
            "twice": owned((known, [0, 0]), (known, [0])),
            "unknown": owned((UNKNOWN_ID, [0])),
            "none of a topic": owned((known, [])),
        },
    }


def consumer_join(topic: str, group: str, **fields: Any) -> messages.ConsumerGroupHeartbeatRequest:
    valid = {
        "group_id": group,
        "member_id": "m",
        "member_epoch": 0,
        "rebalance_timeout_ms": 30_000,
        "subscribed_topic_names": [topic],
        "topic_partitions": [],
    }
    return messages.ConsumerGroupHeartbeatRequest(**{**valid, **fields})


def ask_consumer(run: Run, label: str, request: messages.ConsumerGroupHeartbeatRequest, version: int) -> None:
    """Record the answer; the member id that a broker makes gets a name."""
    if not run.offer(label, request, version):
        return
    answer = run.answer(label)
    if not isinstance(answer, str) and not request.member_id and answer.member_id:
        run.names.give("a member id", answer.member_id)
    run.record(label, answer)


def _describe_consumer(group: str) -> Message:
    return messages.ConsumerGroupDescribeRequest(group_ids=[group])


@script(ApiKey.CONSUMER_GROUP_HEARTBEAT, broker="newer groups")
def consumer_joins_with_unusual_values(run: Run, version: int) -> None:
    """Each in a group that does not exist."""
    topic = run.topic(partitions=2)
    for number, label, fields in _cases(consumer_pools(run, topic), 1, 60):
        ask_consumer(run, label, consumer_join(topic, f"{run.name}-{number}", **fields), version)


def _in_consumer_group(run: Run, version: int, instance: str | None, seed: int) -> None:
    topic = run.topic(partitions=2)
    valid: Fields = {
        "member_epoch": 1,
        "rebalance_timeout_ms": -1,
        "subscribed_topic_names": None,
        "topic_partitions": None,
    }
    for number, label, fields in _cases(consumer_pools(run, topic), seed, 60):
        group = f"{run.name}-{number}"
        joined = run.quietly(consumer_join(topic, group, instance_id=instance), 1)
        assert joined.error_code == 0, joined
        request = consumer_join(topic, group, **{**valid, "instance_id": instance, **fields})
        ask_consumer(run, label, request, version)
        if "group_id" not in fields:
            run.ask(f"{label}, then", _describe_consumer(group), 1)


@script(ApiKey.CONSUMER_GROUP_HEARTBEAT, broker="newer groups")
def consumer_members_with_unusual_values(run: Run, version: int) -> None:
    """Each in a group with one member."""
    _in_consumer_group(run, version, None, 2)


@script(ApiKey.CONSUMER_GROUP_HEARTBEAT, broker="newer groups")
def static_consumers_with_unusual_values(run: Run, version: int) -> None:
    """Each in a group with one static member."""
    _in_consumer_group(run, version, "i", 3)


@script(ApiKey.CONSUMER_GROUP_HEARTBEAT, broker="newer groups")
def static_consumers_that_left(run: Run, version: int) -> None:
    """Each in a group whose static member has left for a time."""
    topic = run.topic(partitions=2)
    for number, label, fields in _cases(consumer_pools(run, topic), 4, 40):
        group = f"{run.name}-{number}"
        for epoch in (0, -2):
            request = consumer_join(topic, group, instance_id="i", member_epoch=epoch)
            assert run.quietly(request, 1).error_code == 0
        request = consumer_join(topic, group, **{"instance_id": "i", "member_id": "again", **fields})
        ask_consumer(run, label, request, version)
        if "group_id" not in fields:
            run.ask(f"{label}, then", _describe_consumer(group), 1)


@script(ApiKey.CONSUMER_GROUP_HEARTBEAT, broker="newer groups")
def consumers_in_other_groups(run: Run, version: int) -> None:
    """Joins, heartbeats and departures in groups of other types, and of classic ones."""
    topic = run.topic(partitions=2)
    subscription = b"\0\0\0\0\0\1" + len(topic).to_bytes(2, "big") + topic.encode() + b"\xff\xff\xff\xff"
    nothing = bytes.fromhex("000000000000ffffffff")
    kinds: dict[str, Callable[[str], object]] = {
        "share": lambda group: share(run, topic, group),
        "streams": lambda group: streams(run, topic, group),
        "classic": lambda group: _classic(run, group, subscription, nothing),
        "not an assignment": lambda group: _classic(run, group, subscription, b"1"),
        "without assignment": lambda group: _classic(run, group, subscription, b""),
        "not a subscription": lambda group: _classic(run, group, b"\0", nothing),
        "empty subscription": lambda group: _classic(run, group, b"", nothing),
        "user data": lambda group: _classic(run, group, subscription[:-4] + b"\0\0\0\1a", nothing),
        "other protocol type": lambda group: stable(
            run, group, f"one of {group}", protocols=[("a", b"1")], protocol_type="kind"
        ),
        "empty classic": lambda group: _emptied(run, group),
    }
    for kind, make in kinds.items():
        for epoch in (0, 1, -1, -2):
            group = f"{run.name} {kind} {epoch}"
            make(group)
            request = consumer_join(topic, group, member_epoch=epoch, instance_id="i" if epoch == -2 else None)
            label = f"{kind}, epoch {epoch}"
            ask_consumer(run, label, request, version)
            run.ask(f"{label}, described", _describe_consumer(group), 1)
            run.ask(f"{label}, as classic", messages.DescribeGroupsRequest(groups=[group]), 6)


def _classic(run: Run, group: str, subscription: bytes, assignment: bytes) -> None:
    """Make a stable classic group of one member."""
    member = Member(run, group, f"one of {group}", protocols=[("range", subscription)])
    member.join()
    member.sync((member.id, assignment))


def _emptied(run: Run, group: str) -> None:
    (member,) = stable(run, group, f"one of {group}")
    run.quietly(leave(group, (member.id, None)), 3)


def assigned(run: Run, topic: str, group: str) -> None:
    """Make a group with a member that has partitions: a coordinator knows a new topic a moment after its leaders."""
    epoch = 0

    def has_partitions() -> bool:
        nonlocal epoch
        answer = run.quietly(consumer_join(topic, group, member_epoch=epoch), 1)
        assert answer.error_code == 0, answer
        epoch = answer.member_epoch
        return answer.assignment is not None and bool(answer.assignment.topic_partitions)

    until(has_partitions, f"{group} to have its partitions", PATIENCE_S)


# ---- share groups


def share(run: Run, topic: str, group: str) -> int:
    """Make a group with the member "m", which has its partitions. Returns its epoch."""
    request = messages.ShareGroupHeartbeatRequest
    joined = run.quietly(request(group_id=group, member_id="m", subscribed_topic_names=[topic]), 1)
    assert joined.error_code == 0, joined
    epoch = joined.member_epoch

    def assigned() -> bool:
        nonlocal epoch
        answer = run.quietly(request(group_id=group, member_id="m", member_epoch=epoch), 1)
        epoch = answer.member_epoch
        return answer.assignment is not None and bool(answer.assignment.topic_partitions)

    until(assigned, f"{group} to have its partitions", PATIENCE_S)
    return int(epoch)


def share_pools(topic: str) -> Pools:
    return {
        "group_id": GROUP_IDS,
        "member_id": MEMBER_IDS,
        "member_epoch": EPOCHS,
        "rack_id": pool("", " ", "r"),
        "subscribed_topic_names": names_pool(topic),
    }


@script(ApiKey.SHARE_GROUP_HEARTBEAT, broker="newer groups")
def sharers_that_join_with_unusual_values(run: Run, version: int) -> None:
    topic = run.topic(partitions=2)
    for number, label, fields in _cases(share_pools(topic), 5, 60):
        valid = {"group_id": f"{run.name}-{number}", "member_id": "m", "subscribed_topic_names": [topic]}
        run.ask(label, messages.ShareGroupHeartbeatRequest(**{**valid, **fields}), version)


@script(ApiKey.SHARE_GROUP_HEARTBEAT, broker="newer groups")
def sharers_with_unusual_values(run: Run, version: int) -> None:
    topic = run.topic(partitions=2)
    for number, label, fields in _cases(share_pools(topic), 6, 60):
        group = f"{run.name}-{number}"
        valid = {"group_id": group, "member_id": "m", "member_epoch": share(run, topic, group)}
        run.ask(label, messages.ShareGroupHeartbeatRequest(**{**valid, **fields}), version)
        if "group_id" not in fields:
            run.ask(f"{label}, then", messages.ShareGroupDescribeRequest(group_ids=[group]), 1)


# ---- streams groups


def topology(topic: str, **fields: Any) -> Any:
    """A topology of one subtopology that reads the topic."""
    request = messages.StreamsGroupHeartbeatRequest
    epoch = fields.pop("epoch", 0)
    return request.Topology(
        epoch=epoch,
        subtopologies=[request.Subtopology(**{"subtopology_id": "0", "source_topics": [topic], **fields})],
    )


def streams_join(topic: str, group: str, **fields: Any) -> messages.StreamsGroupHeartbeatRequest:
    valid = {
        "group_id": group,
        "member_id": "m",
        "rebalance_timeout_ms": 30_000,
        "topology": topology(topic),
        "active_tasks": [],
        "standby_tasks": [],
        "warmup_tasks": [],
        "process_id": "p",
    }
    return messages.StreamsGroupHeartbeatRequest(**{**valid, **fields})


def streams(run: Run, topic: str, group: str) -> None:
    joined = run.quietly(streams_join(topic, group), 0)
    assert joined.error_code == 0, joined


def _topologies(topic: str) -> dict[str, Any]:
    request = messages.StreamsGroupHeartbeatRequest
    info, together = request.TopicInfo, request.CopartitionGroup
    one = topology(topic).subtopologies[0]
    return {
        "None": None,
        "empty": request.Topology(subtopologies=[]),
        "same": topology(topic),
        "epoch 1": topology(topic, epoch=1),
        "epoch -1": topology(topic, epoch=-1),
        "without sources": topology(topic, source_topics=[]),
        "absent source": topology(topic, source_topics=[ABSENT_TOPIC]),
        "internal source": topology(topic, source_topics=["__consumer_offsets", "__share_group_state"]),
        "bad source": topology(topic, source_topics=["bad name!", "", "."]),
        "source twice": topology(topic, source_topics=[topic, topic]),
        "regular expression": topology(topic, source_topic_regex=["a.*"]),
        "sink of nobody": topology(topic, repartition_sink_topics=["sink"]),
        "bad sink": topology(topic, repartition_sink_topics=["a b"]),
        "repartition of nobody": topology(topic, repartition_source_topics=[info(name="r")]),
        "bad repartition": topology(topic, repartition_source_topics=[info(name="")]),
        "changelog with partitions": topology(topic, state_changelog_topics=[info(name="log", partitions=1)]),
        "changelog with fewer than none": topology(topic, state_changelog_topics=[info(name="log", partitions=-1)]),
        "bad changelog": topology(topic, state_changelog_topics=[info(name="a/b")]),
        "copartition beyond": topology(topic, copartition_groups=[together(source_topics=[7])]),
        "copartition negative": topology(topic, copartition_groups=[together(source_topics=[-1])]),
        "copartition of nothing": topology(topic, copartition_groups=[together()]),
        "same subtopology twice": request.Topology(subtopologies=[one, one]),
        "cycle": topology(
            topic, repartition_sink_topics=["loop"], repartition_source_topics=[info(name="loop")], source_topics=[]
        ),
    }


def streams_pools(topic: str) -> Pools:
    request = messages.StreamsGroupHeartbeatRequest
    tasks = {
        **pool(None, []),
        "one": [request.TaskIds(subtopology_id="0", partitions=[0])],
        "both": [request.TaskIds(subtopology_id="0", partitions=[0, 1])],
        "beyond": [request.TaskIds(subtopology_id="0", partitions=[2])],
        "negative": [request.TaskIds(subtopology_id="0", partitions=[-1])],
        "unknown": [request.TaskIds(subtopology_id="9", partitions=[0])],
        "without id": [request.TaskIds(subtopology_id="", partitions=[])],
    }
    offsets = {**pool(None, []), "one": [request.TaskOffset(subtopology_id="0")]}
    return {
        "group_id": GROUP_IDS,
        "member_id": MEMBER_IDS,
        "member_epoch": EPOCHS,
        "endpoint_information_epoch": pool(-1, 0, 1, INT32_MAX),
        "instance_id": pool("", " ", "i"),
        "rack_id": pool("", " ", "r"),
        "rebalance_timeout_ms": TIMEOUTS,
        "topology": _topologies(topic),
        "active_tasks": tasks,
        "standby_tasks": tasks,
        "warmup_tasks": tasks,
        "process_id": pool(None, "", " ", "q"),
        "user_endpoint": pool(None, here=request.Endpoint(host="h", port=65_535), nowhere=request.Endpoint()),
        "client_tags": pool(
            None,
            [],
            one=[request.KeyValue(key="k", value="v")],
            twice=[request.KeyValue(key="k", value="v"), request.KeyValue(key="k", value="w")],
        ),
        "task_offsets": offsets,
        "task_end_offsets": offsets,
        "shutdown_application": pool(True),
    }


@script(ApiKey.STREAMS_GROUP_HEARTBEAT, broker="newer groups")
def streams_joins_with_unusual_values(run: Run, version: int) -> None:
    topic = run.topic(partitions=2)
    for number, label, fields in _cases(streams_pools(topic), 7, 80):
        group = f"{run.name}-{number}"
        run.ask(label, streams_join(topic, group, **fields), version)
        if "group_id" not in fields:
            run.ask(f"{label}, then", messages.StreamsGroupDescribeRequest(group_ids=[group]), 0)


@script(ApiKey.STREAMS_GROUP_HEARTBEAT, broker="newer groups")
def streams_members_with_unusual_values(run: Run, version: int) -> None:
    topic = run.topic(partitions=2)
    missing: Fields = dict.fromkeys(("topology", "active_tasks", "standby_tasks", "warmup_tasks", "process_id"))
    for number, label, fields in _cases(streams_pools(topic), 8, 80):
        group = f"{run.name}-{number}"
        streams(run, topic, group)
        valid = {**missing, "member_epoch": 2, "rebalance_timeout_ms": -1}
        run.ask(label, streams_join(topic, group, **{**valid, **fields}), version)
        if "group_id" not in fields:
            run.ask(f"{label}, then", messages.StreamsGroupDescribeRequest(group_ids=[group]), 0)


# ---- descriptions

_DESCRIPTIONS: dict[ApiKey, Callable[..., Message]] = {
    ApiKey.CONSUMER_GROUP_DESCRIBE: messages.ConsumerGroupDescribeRequest,
    ApiKey.SHARE_GROUP_DESCRIBE: messages.ShareGroupDescribeRequest,
    ApiKey.STREAMS_GROUP_DESCRIBE: messages.StreamsGroupDescribeRequest,
}


def _describe_all(api: ApiKey) -> Callable[[Run, int], None]:
    def work(run: Run, version: int) -> None:
        topic = run.topic(partitions=2)
        request = _DESCRIPTIONS[api]
        group = run.name
        assigned(run, topic, f"{group}-consumer")
        epoch = share(run, topic, f"{group}-share")
        if api == ApiKey.SHARE_GROUP_DESCRIBE:
            for field in ("group_epoch", "assignment_epoch", "member_epoch"):
                # It depends on how soon the state of the share partitions is made.
                run.names.give_number(field, "epoch of the share group", epoch)
        streams(run, topic, f"{group}-streams")
        Member(run, f"{group}-classic", "classic").join()
        kinds = [f"{group}-{kind}" for kind in ("consumer", "share", "streams", "classic", "absent")]
        for name in kinds:
            run.ask(name.removeprefix(group), request(group_ids=[name]), version)
        run.ask("rights", request(group_ids=kinds, include_authorized_operations=True), version)
        run.ask("none", request(group_ids=[]), version)
        run.ask("no name", request(group_ids=[""]), version)
        run.ask("spaces", request(group_ids=[" ", "\t"]), version)
        run.ask("twice", request(group_ids=[kinds[0], kinds[0], kinds[1], kinds[1], kinds[2], kinds[2]]), version)
        run.ask("long", request(group_ids=["g" * 30_000]), version)

    work.__name__ = f"describe_with_{api.name.lower()}"
    return work


for _api in _DESCRIPTIONS:
    script(_api, broker="newer groups")(_describe_all(_api))
