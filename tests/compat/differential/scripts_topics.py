"""CreateTopics, DeleteTopics, CreatePartitions."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey
from tests.compat.differential.build import TIME_MS, UNKNOWN_ID, batch, create, fetch, metadata, new_topic, part, put
from tests.compat.differential.script import METADATA_VERSION, PATIENCE_S, TIMEOUT_MS, Run, script
from tests.support.wait import until

BY_ID = 6
NAMES = {
    "empty": "",
    "one dot": ".",
    "two dots": "..",
    "250 characters": "x" * 250,
    "space": "a b",
    "slash": "a/b",
    "umlaut": "ä",
    "newline": "a\n",
    "metadata log": "__cluster_metadata",
    "group log": "__consumer_offsets",
}


@script(ApiKey.CREATE_TOPICS)
def create_names(run: Run, version: int) -> None:
    name = run.topic("-there")

    def ask(label: str, *topics: messages.CreateTopicsRequest.CreatableTopic, **how: Any) -> None:
        answer = run.client().ask(create(*topics, **how), version)
        assert not isinstance(answer, str)
        for topic in answer.topics:
            if topic.error_code == 0:
                run.names.give(f"new {topic.name}", topic.topic_id)
        run.record(label, answer)

    ask("no topics")
    for label, wrong in NAMES.items():
        ask(f"name: {label}", new_topic(wrong))
    ask("exists", new_topic(name))
    ask("exists, with other mistakes", new_topic(name, partitions=0, configs=[("no.such", "1")]))
    ask("underscores", new_topic(name.replace("-", "_")))
    ask("collides", new_topic(name.replace("-", ".")))
    ask("collides with another of the request", new_topic(f"{name}.x"), new_topic(f"{name}_x"))
    ask("twice", new_topic(f"{run.name}-twice"), new_topic(f"{run.name}-twice", partitions=2))
    ask("twice, and a good one", new_topic(f"{run.name}-t"), new_topic(f"{run.name}-g"), new_topic(f"{run.name}-t"))
    ask("249 characters", new_topic((run.name + "-" + "x" * 249)[:249]))
    ask("only validated", new_topic(f"{run.name}-v", 3), validate_only=True)
    ask("only validated, exists", new_topic(name), validate_only=True)
    ask("only validated, then created", new_topic(f"{run.name}-v", 3))
    ask("good, bad, good", new_topic(f"{run.name}-1"), new_topic(f"{run.name}-2", 0), new_topic(f"{run.name}-3"))
    ask("timeout 0", new_topic(f"{run.name}-0"), timeout_ms=0)
    ask("timeout negative", new_topic(f"{run.name}-n"), timeout_ms=-1)


@script(ApiKey.CREATE_TOPICS)
def create_shapes(run: Run, version: int) -> None:
    count = 0

    def ask(label: str, *how: Any, **more: Any) -> None:
        nonlocal count
        count += 1
        name = f"{run.name}-{count}"
        answer = run.client().ask(create(new_topic(name, *how, **more)), version)
        assert not isinstance(answer, str)
        (topic,) = answer.topics
        if topic.error_code == 0:
            run.names.give(f"new {topic.name}", topic.topic_id)
        run.record(label, answer)
        if topic.error_code == 0:
            made = len(more["assignments"]) if more.get("assignments") else (how[0] if how and how[0] > 0 else 1)
            run.learn_topic(name, made)
            run.ask(f"{label}: as it is", metadata([name]), METADATA_VERSION)

    ask("one partition")
    ask("three partitions", 3)
    ask("default partitions", -1)
    ask("default replication", 1, -1)
    ask("defaults", -1, -1)
    ask("no partitions", 0)
    ask("partitions -2", -2)
    ask("partitions and replication wrong", -2, 0)
    ask("10001 partitions", 10001)
    ask("many partitions", 2**31 - 1)
    ask("no replicas", 1, 0)
    ask("replicas -2", 1, -2)
    ask("2 replicas", 1, 2)
    ask("many replicas", 1, 32767)
    ask("assigned", -1, -1, assignments={0: [1]})
    ask("two assigned", -1, -1, assignments={1: [1], 0: [1]})
    ask("assigned, with count", 1, -1, assignments={0: [1]})
    ask("assigned, with factor", -1, 1, assignments={0: [1]})
    ask("assigned, with both", 1, 1, assignments={0: [1]})
    ask("assigned to nobody", -1, -1, assignments={0: []})
    ask("assigned to a stranger", -1, -1, assignments={0: [7]})
    ask("assigned to 1 and a stranger", -1, -1, assignments={0: [1, 7]})
    ask("assigned twice to one", -1, -1, assignments={0: [1, 1]})
    ask("assigned to broker -1", -1, -1, assignments={0: [-1]})
    ask("assigned from 1", -1, -1, assignments={1: [1]})
    ask("assigned with a gap", -1, -1, assignments={0: [1], 2: [1]})
    ask("assigned partition -1", -1, -1, assignments={-1: [1]})
    ask("partition assigned twice", -1, -1, assignments=[(0, [1]), (0, [1])])
    ask("different factors", -1, -1, assignments={0: [1], 1: [1, 7]})
    ask("setting", configs=[("retention.ms", "1000")])
    ask("settings", configs=[("cleanup.policy", "compact,delete"), ("segment.bytes", "1048576")])
    ask("setting twice", configs=[("retention.ms", "1000"), ("retention.ms", "2000")])
    ask("setting that is not one", configs=[("no.such.setting", "1")])
    ask("setting without a name", configs=[("", "1")])
    ask("setting that is null", configs=[("retention.ms", None)])
    ask("two settings that are null", configs=[("retention.ms", None), ("segment.ms", None)])
    ask("setting that is no number", configs=[("retention.ms", "soon")])
    ask("setting below its range", configs=[("segment.bytes", "1")])
    ask("setting of the wrong word", configs=[("cleanup.policy", "burn")])
    ask("setting of a broker", configs=[("log.retention.ms", "1000")])
    ask("settings that do not fit", configs=[("min.compaction.lag.ms", "100"), ("max.compaction.lag.ms", "10")])
    ask("setting and count wrong", 0, configs=[("no.such.setting", "1")])
    ask("tiered storage", configs=[("remote.storage.enable", "true")])
    ask("empty setting", configs=[("cleanup.policy", "")])
    ask("spaces around a setting", configs=[("retention.ms", " 1000 ")])


def _delete(version: int, *choices: str | uuid.UUID | tuple[str, uuid.UUID] | None) -> messages.DeleteTopicsRequest:
    """By names; ids, and both or neither, only if the version supports that."""
    request = messages.DeleteTopicsRequest
    if version < BY_ID:
        return request(topic_names=[str(name) for name in choices], timeout_ms=TIMEOUT_MS)
    states = []
    for choice in choices:
        if isinstance(choice, uuid.UUID):
            states.append(request.DeleteTopicState(topic_id=choice))
        elif isinstance(choice, tuple):
            states.append(request.DeleteTopicState(name=choice[0], topic_id=choice[1]))
        else:
            states.append(request.DeleteTopicState(name=choice))
    return request(topics=states, timeout_ms=TIMEOUT_MS)


@script(ApiKey.DELETE_TOPICS)
def delete_by_name(run: Run, version: int) -> None:
    names = [run.topic(f"-{at}", partitions=2) for at in range(4)]

    def ask(label: str, *choices: Any) -> None:
        run.ask(label, _delete(version, *choices), version)

    ask("no topics")
    ask("one", names[0])
    until(lambda: run.described(names[0]).error_code, "the topic to be gone", PATIENCE_S)
    ask("gone", names[0])
    run.ask("produce to it", fetch(run, 12, {names[0]: [part(0)]}), 12)
    ask("twice", names[1], names[1])
    ask("still there, with an unknown one", "no-such-topic", names[1])
    for label, wrong in NAMES.items():
        if wrong != "__consumer_offsets":
            ask(f"name: {label}", wrong)
    ask("metadata log", "__cluster_metadata")
    put(run, names[2], 0, batch(b"a", time_ms=TIME_MS))
    ask("with records", names[2], names[3])
    until(lambda: run.described(names[2]).error_code, "the topic to be gone", PATIENCE_S)
    assert run.topic("-2", partitions=1) == names[2]
    run.ask("made anew, it is empty", fetch(run, 12, {names[2]: [part(0), part(1)]}), 12)


@script(ApiKey.DELETE_TOPICS, versions=[BY_ID])
def delete_by_id(run: Run, version: int) -> None:
    names = [run.topic(f"-{at}") for at in range(5)]
    ids = [run.topic_ids[name] for name in names]
    run.names.give("unknown topic", UNKNOWN_ID)

    def ask(label: str, *choices: Any) -> None:
        run.ask(label, _delete(version, *choices), version)

    ask("one", ids[0])
    ask("gone", ids[0])
    ask("unknown", UNKNOWN_ID)
    ask("neither name nor id", None)
    ask("neither name nor id, twice", None, None)
    ask("zero id and name", (names[1], uuid.UUID(int=0)))
    ask("name and id", (names[2], ids[2]))
    ask("name and id of another", (names[2], ids[3]))
    ask("id twice", ids[2], ids[2])
    ask("by name and by id", names[2], ids[2])
    ask("by id and by name", ids[3], names[3])
    ask("still there, and some mistakes", ids[2], "no-such-topic", UNKNOWN_ID, names[3])
    ask("the last", names[4])


@script(ApiKey.DELETE_TOPICS, broker="auto")
def delete_disabled(run: Run, version: int) -> None:
    name = run.topic()
    run.ask("disabled", _delete(version, name), version)
    run.ask("disabled, unknown", _delete(version, "no-such-topic", name), version)
    run.ask("disabled, none", _delete(version), version)
    if version >= BY_ID:
        run.ask("disabled, by id", _delete(version, run.topic_ids[name]), version)


Assignments = Sequence[Sequence[int]] | None


@script(ApiKey.CREATE_PARTITIONS)
def more_partitions(run: Run, version: int) -> None:
    name = run.topic()
    other = run.topic("-other")
    request = messages.CreatePartitionsRequest

    def topic(name: str, count: int, assignments: Assignments = None) -> Any:
        lists = None
        if assignments is not None:
            lists = [request.CreatePartitionsAssignment(broker_ids=list(ids)) for ids in assignments]
        return request.CreatePartitionsTopic(name=name, count=count, assignments=lists)

    def ask(label: str, *topics: Any, **how: Any) -> None:
        run.ask(label, request(topics=list(topics), **{"timeout_ms": TIMEOUT_MS, **how}), version)

    ask("no topics")
    ask("two", topic(name, 2))
    run.learn_topic(name, 2)
    run.ask("two: as it is", metadata([name]), METADATA_VERSION)
    ask("two again", topic(name, 2))
    ask("one", topic(name, 1))
    ask("none", topic(name, 0))
    ask("-1", topic(name, -1))
    ask("only validated", topic(name, 5), validate_only=True)
    ask("only validated, wrong", topic(name, 1), validate_only=True)
    ask("unknown topic", topic("no-such-topic", 2))
    ask("name that is not allowed", topic("a b", 2))
    ask("empty name", topic("", 2))
    ask("twice", topic(name, 3), topic(name, 4))
    ask("twice, and another", topic(name, 3), topic(other, 2), topic(name, 3))
    run.learn_topic(other, 2)
    ask("assigned", topic(name, 3, [[1]]))
    ask("assigned too few", topic(name, 5, [[1]]))
    ask("assigned too many", topic(name, 4, [[1], [1]]))
    ask("assigned nothing", topic(name, 4, []))
    ask("assigned to nobody", topic(name, 4, [[]]))
    ask("assigned to a stranger", topic(name, 4, [[7]]))
    ask("assigned twice to one", topic(name, 4, [[1, 1]]))
    ask("assigned one replica more", topic(name, 4, [[1, 7]]))
    ask("second assigned wrongly", topic(name, 5, [[1], [7]]))
    # Not tested: more than 10,000 in one request. Kafka answers UNKNOWN_SERVER_ERROR and creates 10,000 of them.
    ask("good and bad", topic(name, 4), topic("no-such-topic", 9), topic(other, 1))
    run.learn_topic(name, 4)
    ask("internal topic", topic("__consumer_offsets", 2))
    ask("metadata log", topic("__cluster_metadata", 2))
    put(run, name, 3, batch(b"a"))
    run.ask("the new one serves", fetch(run, 12, {name: [part(3)]}), 12)
    counts: Mapping[str, int] = {name: 4, other: 2}
    for topic_name, count in counts.items():
        assert len(run.described(topic_name).partitions) == count
