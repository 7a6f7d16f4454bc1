"""The requests of share-partition leaders to the share coordinator, and those about the offsets of share groups."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable
from typing import Any

from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey
from broker_cy.wire.layout import Message
from tests.compat.differential.build import UNKNOWN_ID, batch, id_of, put
from tests.compat.differential.script import PATIENCE_S, Run, script
from tests.compat.differential.scripts_group_requests import ABSENT_TOPIC, GROUP_IDS, consumer_join, share, streams
from tests.compat.differential.variants import INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, Pools, pool, variants
from tests.support.wait import until

EPOCHS = pool(INT32_MIN, -2, -1, 0, 1, 2, INT32_MAX)
OFFSETS = pool(INT64_MIN, -2, -1, 0, 5, INT64_MAX)
PARTITIONS = pool(INT32_MIN, -1, 0, 1, 100_000, INT32_MAX)
# (first offset, last offset, state, delivery count)
STATES: dict[str, list[tuple[int, int, int, int]]] = {
    "none": [],
    "available": [(0, 4, 0, 1)],
    "acquired": [(0, 4, 1, 1)],
    "acknowledged": [(0, 4, 2, 1)],
    "archiving": [(0, 4, 3, 1)],
    "archived": [(0, 4, 4, 1)],
    "no such state": [(0, 4, 5, 1)],
    "negative state": [(0, 4, -1, 1)],
    "negative count": [(0, 4, 2, -1)],
    "backwards": [(4, 0, 2, 1)],
    "negative offsets": [(-5, -1, 2, 1)],
    "overlap": [(0, 4, 2, 1), (3, 9, 0, 2)],
    "same": [(0, 4, 2, 1), (0, 4, 2, 1)],
    "unordered": [(5, 9, 2, 1), (0, 4, 2, 1)],
    "below and above": [(0, 2, 2, 1), (8, 9, 0, 3)],
    "largest": [(INT64_MAX - 1, INT64_MAX, 2, 32_767)],
}


def _initialize(group: str, topic_id: uuid.UUID, **fields: Any) -> Message:
    request = messages.InitializeShareGroupStateRequest
    part = request.PartitionData(**{"state_epoch": 1, "start_offset": 0, **fields})
    return request(group_id=group, topics=[request.InitializeStateData(topic_id=topic_id, partitions=[part])])


def _read(group: str, topic_id: uuid.UUID, **fields: Any) -> Message:
    request = messages.ReadShareGroupStateRequest
    part = request.PartitionData(**{"leader_epoch": 0, **fields})
    return request(group_id=group, topics=[request.ReadStateData(topic_id=topic_id, partitions=[part])])


def _write(group: str, topic_id: uuid.UUID, **fields: Any) -> Message:
    request = messages.WriteShareGroupStateRequest
    states = fields.pop("state_batches", [(0, 4, 2, 1)])
    batches = [
        request.StateBatch(first_offset=first, last_offset=last, delivery_state=state, delivery_count=count)
        for first, last, state, count in states
    ]
    valid = {"state_epoch": 1, "leader_epoch": 0, "start_offset": 0, "state_batches": batches}
    part = request.PartitionData(**{**valid, **fields})
    return request(group_id=group, topics=[request.WriteStateData(topic_id=topic_id, partitions=[part])])


def _delete(group: str, topic_id: uuid.UUID, **fields: Any) -> Message:
    request = messages.DeleteShareGroupStateRequest
    part = request.PartitionData(**fields)
    return request(group_id=group, topics=[request.DeleteStateData(topic_id=topic_id, partitions=[part])])


def _summary(group: str, topic_id: uuid.UUID, **fields: Any) -> Message:
    request = messages.ReadShareGroupStateSummaryRequest
    part = request.PartitionData(**{"leader_epoch": 0, **fields})
    return request(group_id=group, topics=[request.ReadStateSummaryData(topic_id=topic_id, partitions=[part])])


Build = Callable[..., Message]
_STATE: dict[ApiKey, tuple[Build, Pools]] = {
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: (_initialize, {"state_epoch": EPOCHS, "start_offset": OFFSETS}),
    ApiKey.READ_SHARE_GROUP_STATE: (_read, {"leader_epoch": EPOCHS}),
    ApiKey.WRITE_SHARE_GROUP_STATE: (
        _write,
        {
            "state_epoch": EPOCHS,
            "leader_epoch": EPOCHS,
            "start_offset": OFFSETS,
            "delivery_complete_count": pool(INT32_MIN, -1, 0, 5),
            "state_batches": STATES,
        },
    ),
    ApiKey.DELETE_SHARE_GROUP_STATE: (_delete, {}),
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: (_summary, {"leader_epoch": EPOCHS}),
}


def _states(api: ApiKey) -> Callable[[Run, int], None]:
    build, values = _STATE[api]

    def work(run: Run, version: int) -> None:
        """Each variant for a group that is not known, and for one whose state exists."""
        topic_id = id_of(run, run.topic(partitions=2))
        _make_ready(run, topic_id)
        pools = {**values, "partition": PARTITIONS, "topic": {"unknown": UNKNOWN_ID, "zero": uuid.UUID(int=0)}}
        for number, (label, fields) in enumerate(variants({**pools, "group": GROUP_IDS}, 12, 40)):
            fields = dict(fields)
            wanted, asked_id = fields.pop("group", None), fields.pop("topic", topic_id)
            for state in ("new", "known"):
                own = f"{run.name}-{number}-{state}"
                if state == "known":
                    run.quietly(_initialize(own, topic_id), 0)
                    run.quietly(_write(own, topic_id, leader_epoch=0, state_batches=[(5, 9, 2, 1)]), 0)
                group = own if wanted is None else wanted
                run.ask(f"{label}, {state}", build(group, asked_id, **fields), version)
                run.ask(f"{label}, {state}, then", _read(own, topic_id, leader_epoch=-1), 0)
        request: Any = build("g", topic_id)
        (topic,) = request.topics
        request.topics = []
        run.ask("no topics", request, version)
        topic.partitions, request.topics = [], [topic]
        run.ask("no partitions", request, version)

    work.__name__ = f"unusual_{api.name.lower()}"
    return work


def _make_ready(run: Run, topic_id: uuid.UUID) -> None:
    """Wait until the share coordinator serves: a broker creates the topic of its state when it is first needed."""
    share(run, next(iter(run.topic_ids)), f"{run.name}-first")

    def serves() -> bool:
        answers = [run.quietly(_initialize(f"{run.name}-ready-{at}", topic_id), 0) for at in range(20)]
        return all(answer.results[0].partitions[0].error_code == 0 for answer in answers)

    until(serves, "the share coordinator", PATIENCE_S)


for _api in _STATE:
    script(_api, broker="newer groups")(_states(_api))


@script(ApiKey.WRITE_SHARE_GROUP_STATE, broker="newer groups")
def share_states_in_random_order(run: Run, version: int) -> None:
    """Requests of leaders that come, go and overlap; after each one the whole state is compared."""
    topic_id = id_of(run, run.topic(partitions=1))
    _make_ready(run, topic_id)
    chance = random.Random(13)
    for number in range(150):
        group = f"{run.name}-{number % 3}"
        kind, request = _random_request(chance, group, topic_id)
        run.ask(f"{number} {kind}", request, version if kind == "write" else 0)
        run.ask(f"{number} {kind}, then", _read(group, topic_id, leader_epoch=-1), 0)


def _random_request(chance: random.Random, group: str, topic_id: uuid.UUID) -> tuple[str, Message]:
    kind = chance.choices(("initialize", "read", "write", "summary", "delete"), (2, 1, 6, 1, 1))[0]
    epoch, first = chance.randint(0, 3), chance.randint(0, 40)
    if kind == "initialize":
        return kind, _initialize(group, topic_id, state_epoch=epoch, start_offset=chance.choice([-1, first]))
    if kind == "write":
        states = [
            (at, at + chance.randint(0, 6), chance.choice([0, 2, 4]), chance.randint(1, 4))
            for at in range(first, first + chance.randint(0, 25), chance.randint(1, 8))
        ]
        fields = {
            "state_epoch": epoch,
            "leader_epoch": chance.randint(0, 3),
            "start_offset": chance.choice([-1, first]),
        }
        return kind, _write(group, topic_id, state_batches=states, **fields)
    if kind == "delete":
        return kind, _delete(group, topic_id)
    return kind, (_read if kind == "read" else _summary)(group, topic_id, leader_epoch=epoch)


# ---- the offsets of share groups


def _alter(topics: list[tuple[str, list[tuple[int, int]]]], group: str) -> messages.AlterShareGroupOffsetsRequest:
    request = messages.AlterShareGroupOffsetsRequest
    partition, topic = request.AlterShareGroupOffsetsRequestPartition, request.AlterShareGroupOffsetsRequestTopic
    return request(
        group_id=group,
        topics=[
            topic(
                topic_name=name, partitions=[partition(partition_index=at, start_offset=start) for at, start in parts]
            )
            for name, parts in topics
        ],
    )


def _describe(topics: list[tuple[str, list[int]]] | None, *groups: str) -> messages.DescribeShareGroupOffsetsRequest:
    request = messages.DescribeShareGroupOffsetsRequest
    topic = request.DescribeShareGroupOffsetsRequestTopic
    asked = None if topics is None else [topic(topic_name=name, partitions=parts) for name, parts in topics]
    return request(
        groups=[request.DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=asked) for group in groups]
    )


def _forget(group: str, *names: str) -> messages.DeleteShareGroupOffsetsRequest:
    request = messages.DeleteShareGroupOffsetsRequest
    return request(group_id=group, topics=[request.DeleteShareGroupOffsetsRequestTopic(topic_name=n) for n in names])


def _groups(run: Run, topic: str) -> dict[str, str]:
    """One group of each type, and two that are empty."""
    made = {kind: f"{run.name}-{kind}" for kind in ("absent", "member", "altered", "consumer", "streams")}
    share(run, topic, made["member"])
    assert run.quietly(_alter([(topic, [(0, 1), (1, 2)])], made["altered"]), 0).error_code == 0
    assert run.quietly(consumer_join(topic, made["consumer"]), 1).error_code == 0
    streams(run, topic, made["streams"])
    return {**made, "no name": ""}


def _prepared(run: Run) -> str:
    topic = run.topic(partitions=2)
    for partition in range(2):
        put(run, topic, partition, batch(*(b"%d" % n for n in range(5))))
    return topic


@script(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, broker="newer groups")
def share_offsets_described(run: Run, version: int) -> None:
    topic = _prepared(run)
    groups = _groups(run, topic)
    shapes: dict[str, list[tuple[str, list[int]]] | None] = {
        "all": None,
        "none": [],
        "both": [(topic, [0, 1])],
        "no partitions": [(topic, [])],
        "negative": [(topic, [-1, INT32_MIN])],
        "twice": [(topic, [0, 0])],
        "topic twice": [(topic, [0]), (topic, [1])],
        "absent topic": [(ABSENT_TOPIC, [0])],
        "no topic": [("", [0])],
        "bad topic": [("a b", [0])],
        "good and absent": [(topic, [0]), (ABSENT_TOPIC, [0]), ("", [1])],
    }
    for kind, group in groups.items():
        for shape, topics in shapes.items():
            run.ask(f"{kind}, {shape}", _describe(topics, group), version)
    run.ask("no groups", _describe(None), version)
    # Once: Kafka asks for the state of a partition that does not exist for 15 s.
    run.ask("beyond", _describe([(topic, [0, 9])], groups["altered"]), version)
    run.ask("one twice", _describe([(topic, [0])], groups["altered"], groups["altered"]), version)


@script(ApiKey.ALTER_SHARE_GROUP_OFFSETS, broker="newer groups")
def share_offsets_altered(run: Run, version: int) -> None:
    topic = _prepared(run)
    groups = _groups(run, topic)
    shapes: dict[str, list[tuple[str, list[tuple[int, int]]]]] = {
        "none": [],
        "both": [(topic, [(0, 1), (1, 3)])],
        "no partitions": [(topic, [])],
        "beyond": [(topic, [(2, 0)])],
        "good and beyond": [(topic, [(0, 4), (7, 0)])],
        "negative": [(topic, [(-1, 0)])],
        "twice": [(topic, [(0, 1), (0, 2)])],
        "absent topic": [(ABSENT_TOPIC, [(0, 0)])],
        "no topic": [("", [(0, 0)])],
        "bad topic": [("a b", [(0, 0)])],
        "good and absent": [(topic, [(0, 2)]), (ABSENT_TOPIC, [(0, 0)])],
        **{f"offset {name}": [(topic, [(0, value)])] for name, value in OFFSETS.items()},
    }
    for kind, group in groups.items():
        for shape, topics in shapes.items():
            label = f"{kind}, {shape}"
            run.ask(label, _alter(topics, group), version)
            run.ask(f"{label}, then", _describe(None, group), 1)


@script(ApiKey.DELETE_SHARE_GROUP_OFFSETS, broker="newer groups")
def share_offsets_deleted(run: Run, version: int) -> None:
    topic = _prepared(run)
    groups = _groups(run, topic)
    shapes: dict[str, tuple[str, ...]] = {
        "none": (),
        "absent topic": (ABSENT_TOPIC,),
        "no topic": ("",),
        "bad topic": ("a b",),
        "absent and no topic": (ABSENT_TOPIC, ""),
        "topic": (topic,),
        "topic again": (topic,),
        "twice": (topic, topic),
        "good and absent": (topic, ABSENT_TOPIC),
    }
    for kind, group in groups.items():
        for shape, names in shapes.items():
            label = f"{kind}, {shape}"
            run.ask(label, _forget(group, *names), version)
            run.ask(f"{label}, then", _describe(None, group), 1)
            if shape == "topic again" and kind == "altered":
                assert run.quietly(_alter([(topic, [(0, 1)])], group), 0).error_code == 0
