"""Creating, growing and deleting topics: Kafka's rules, codes and messages."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from broker_cy.controller.create_topics import CreateTopics
from broker_cy.controller.topic_ops import CreatePartitions, DeleteTopics, TopicChoice
from broker_cy.core import uuid as uuids
from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages
from tests.broker_cy.controller.cluster import DIRECTORY, Cluster
from tests.support.images import topic_in

Topic = messages.CreateTopicsRequest.CreatableTopic
Assignment = messages.CreateTopicsRequest.CreatableReplicaAssignment
Config = messages.CreateTopicsRequest.CreatableTopicConfig


def create(cluster: Cluster, *topics: Any, validate_only: bool = False, with_configs: bool = False) -> list[Any]:
    request = messages.CreateTopicsRequest(topics=list(topics), validate_only=validate_only)
    results: list[Any] = cluster.run(CreateTopics(request, with_configs)).topics
    return results


def topic(name: str, partitions: int = 1, factor: int = 1, **settings: str) -> Any:
    configs = [Config(name=key.replace("_", "."), value=value) for key, value in settings.items()]
    return Topic(name=name, num_partitions=partitions, replication_factor=factor, configs=configs)


def manual(name: str, *assignments: tuple[int, list[int]], partitions: int = -1, factor: int = -1) -> Any:
    listed = [Assignment(partition_index=index, broker_ids=brokers) for index, brokers in assignments]
    return Topic(name=name, num_partitions=partitions, replication_factor=factor, assignments=listed)


def outcome(result: Any) -> tuple[str, str | None]:
    return ErrorCode(result.error_code).name, result.error_message


def test_create() -> None:
    """If this fails, a created topic would not be led by this broker, or have no directory."""
    cluster = Cluster.started()
    (result,) = create(cluster, topic("a", 3, 1, retention_ms="1000"))
    assert outcome(result) == ("NONE", None)
    assert (result.num_partitions, result.replication_factor) == (3, 1)
    found = topic_in(cluster.image, "a")
    assert found.topic_id == result.topic_id
    assert sorted(found.partitions) == [0, 1, 2]
    for partition in found.partitions.values():
        assert (partition.replicas, partition.isr, partition.leader, partition.leader_epoch) == ((1,), (1,), 1, 0)
        assert partition.directories == (DIRECTORY,)
    assert cluster.image.configs.topic("a") == {"retention.ms": "1000"}


def test_defaults_of_the_broker() -> None:
    """-1 must mean num.partitions and default.replication.factor (KIP-464)."""
    cluster = Cluster.started({"num.partitions": "4"})
    (result,) = create(cluster, topic("a", -1, -1))
    assert (outcome(result)[0], result.num_partitions, result.replication_factor) == ("NONE", 4, 1)


def test_validate_only_writes_nothing() -> None:
    """If this fails, a dry run would create the topic."""
    cluster = Cluster.started()
    size = len(cluster.log)
    (good, bad) = create(cluster, topic("a"), topic("b", 0), validate_only=True)
    assert outcome(good)[0] == "NONE"
    assert outcome(bad)[0] == "INVALID_PARTITIONS"
    assert cluster.image.topics.by_name("a") is None
    assert len(cluster.log) == size


def test_answer_has_the_effective_settings() -> None:
    """Clients print the settings of a new topic from this response (KIP-525)."""
    cluster = Cluster.started({"log.retention.ms": "5000"})
    (result,) = create(cluster, topic("a", cleanup_policy="compact"), with_configs=True)
    by_name = {config.name: config for config in result.configs}
    assert list(by_name) == sorted(by_name)
    assert (by_name["cleanup.policy"].value, by_name["cleanup.policy"].config_source) == ("compact", 1)
    assert (by_name["retention.ms"].value, by_name["retention.ms"].config_source) == ("5000", 4)
    assert (by_name["segment.bytes"].value, by_name["segment.bytes"].config_source) == ("1073741824", 5)


NOT_REGISTERED = "The manual partition assignment includes broker 2, but no such broker is registered."
TOO_FEW = (
    "Unable to replicate the partition 3 time(s): The target replication factor of 3 cannot be reached because only "
    "1 broker(s) are registered or some brokers have all their log directories cordoned."
)


@pytest.mark.parametrize(
    ("wanted", "code", "message"),
    [
        (topic("taken"), "TOPIC_ALREADY_EXISTS", "Topic 'taken' already exists."),
        (topic(""), "INVALID_TOPIC_EXCEPTION", "Topic name is invalid: the empty string is not allowed"),
        (topic(".."), "INVALID_TOPIC_EXCEPTION", "Topic name is invalid: '..' is not allowed"),
        (topic("a/b"), "INVALID_TOPIC_EXCEPTION", "Topic name is invalid: 'a/b' contains one or more characters other"),
        (topic("t_x"), "INVALID_TOPIC_EXCEPTION", "Topic 't_x' collides with existing topic: t.x"),
        (topic("a", 0), "INVALID_PARTITIONS", "Number of partitions was set to an invalid non-positive value."),
        (topic("a", -2), "INVALID_PARTITIONS", "Number of partitions was set to an invalid non-positive value."),
        (topic("a", 1, 0), "INVALID_REPLICATION_FACTOR", "Replication factor must be larger than 0, or -1 to use"),
        (topic("a", 1, 3), "INVALID_REPLICATION_FACTOR", TOO_FEW),
        (topic("a", retention_ms="x"), "INVALID_CONFIG", "Invalid value x for configuration retention.ms"),
        (topic("a", no_such="1"), "INVALID_CONFIG", "Unknown topic config name: no.such"),
        (manual("a", (0, [1]), factor=1), "INVALID_REQUEST", "replication factor was not set to -1."),
        (manual("a", (0, [1]), partitions=1), "INVALID_REQUEST", "numPartitions was not set to -1."),
        (manual("a", (0, [])), "INVALID_REPLICA_ASSIGNMENT", "includes an empty replica list."),
        (manual("a", (0, [2])), "INVALID_REPLICA_ASSIGNMENT", NOT_REGISTERED),
        (manual("a", (0, [1, 1])), "INVALID_REPLICA_ASSIGNMENT", "includes the broker 1 more than once."),
        (manual("a", (0, [1]), (0, [1])), "INVALID_REPLICA_ASSIGNMENT", "Found multiple manual partition assignments"),
        (manual("a", (1, [1])), "INVALID_REPLICA_ASSIGNMENT", "partitions should be a consecutive 0-based integer"),
        (
            topic("__cluster_metadata"),
            "INVALID_REQUEST",
            "Creation of internal topic __cluster_metadata is prohibited.",
        ),
        (topic("a", 10_001), "POLICY_VIOLATION", "Excessively large number of partitions per request"),
    ],
)
def test_refused(wanted: Any, code: str, message: str) -> None:
    """If this fails, a client would get another code than from Kafka, or a topic that cannot work."""
    cluster = Cluster.started()
    create(cluster, topic("taken"), topic("t.x"))
    (result,) = create(cluster, wanted)
    assert outcome(result)[0] == code
    assert message in result.error_message
    assert len(cluster.image.topics) == 2


def test_null_setting() -> None:
    """If this fails, a null value would be stored as text."""
    cluster = Cluster.started()
    wanted = topic("a")
    wanted.configs = [Config(name="retention.ms", value=None)]
    (result,) = create(cluster, wanted)
    assert outcome(result) == ("INVALID_CONFIG", "Null value not supported for topic configs: retention.ms")


def test_manual_assignment() -> None:
    """If this fails, partitions given by hand would get other numbers."""
    cluster = Cluster.started()
    (result,) = create(cluster, manual("a", (1, [1]), (0, [1])))
    assert (outcome(result)[0], result.num_partitions, result.replication_factor) == ("NONE", 2, 1)


def test_one_bad_topic_does_not_harm_the_others() -> None:
    """If this fails, a request for many topics would fail as a whole, or a duplicate would be created."""
    cluster = Cluster.started()
    results = create(cluster, topic("a"), topic("d"), topic("b", 0), topic("d"), topic("c.c"), topic("c_c"))
    assert {r.name: outcome(r)[0] for r in results} == {
        "a": "NONE",
        "b": "INVALID_PARTITIONS",
        "c.c": "NONE",
        # As in Kafka: names that collide only with each other.
        "c_c": "NONE",
        "d": "INVALID_REQUEST",
    }
    assert {t.name for t in cluster.image.topics} == {"a", "c.c", "c_c"}


def test_no_broker_is_up() -> None:
    """If this fails, a topic would be created that no broker can lead."""
    cluster = Cluster.started()
    cluster.stop(1)
    (result,) = create(cluster, topic("a"))
    assert outcome(result) == (
        "INVALID_REPLICATION_FACTOR",
        "Unable to replicate the partition 1 time(s): All brokers are currently fenced, or have all their log "
        "directories cordoned.",
    )


Grown = messages.CreatePartitionsRequest.CreatePartitionsTopic
GrownAssignment = messages.CreatePartitionsRequest.CreatePartitionsAssignment


def grow(cluster: Cluster, *wanted: tuple[str, int, list[list[int]] | None], validate_only: bool = False) -> list[Any]:
    topics = [
        Grown(
            name=name,
            count=count,
            assignments=None if lists is None else [GrownAssignment(broker_ids=brokers) for brokers in lists],
        )
        for name, count, lists in wanted
    ]
    return cluster.run(CreatePartitions(topics, validate_only))


def test_grow() -> None:
    """If this fails, new partitions would replace old ones."""
    cluster = Cluster.started()
    create(cluster, topic("a", 2))
    cluster.start()
    (result,) = grow(cluster, ("a", 4, None))
    assert outcome(result) == ("NONE", None)
    partitions = topic_in(cluster.image, "a").partitions
    assert [partitions[i].leader_epoch for i in range(4)] == [2, 2, 0, 0]


@pytest.mark.parametrize(
    ("wanted", "code", "message"),
    [
        (("none", 4, None), "UNKNOWN_TOPIC_OR_PARTITION", None),
        (("a", 2, None), "INVALID_PARTITIONS", "Topic already has 2 partition(s)."),
        (("a", 1, None), "INVALID_PARTITIONS", "The topic a currently has 2 partition(s); 1 would not be an increase."),
        (("a", 4, [[1]]), "INVALID_REPLICA_ASSIGNMENT", "Attempted to add 2 additional partition(s), but only 1"),
        (("a", 3, [[2]]), "INVALID_REPLICA_ASSIGNMENT", NOT_REGISTERED),
        (("a", 3, [[]]), "INVALID_REPLICA_ASSIGNMENT", "includes an empty replica list."),
        (("a", 20_000, None), "POLICY_VIOLATION", "Unable to perform excessively large batch operation"),
    ],
)
def test_grow_refused(wanted: Any, code: str, message: str | None) -> None:
    """If this fails, partitions would be lost or have no broker."""
    cluster = Cluster.started()
    create(cluster, topic("a", 2))
    (result,) = grow(cluster, wanted)
    assert outcome(result)[0] == code
    assert result.error_message is None if message is None else message in result.error_message
    assert len(topic_in(cluster.image, "a").partitions) == 2


def test_grow_validate_only_and_duplicates() -> None:
    """If this fails, a dry run would add partitions, or the growth of a topic that is named twice would depend on the
    order.
    """
    cluster = Cluster.started()
    create(cluster, topic("a"), topic("b"))
    assert [outcome(r)[0] for r in grow(cluster, ("a", 3, None), validate_only=True)] == ["NONE"]
    results = grow(cluster, ("a", 3, None), ("b", 2, None), ("a", 4, None))
    assert {r.name: outcome(r) for r in results} == {
        "a": ("INVALID_REQUEST", "Duplicate topic name."),
        "b": ("NONE", None),
    }
    assert len(topic_in(cluster.image, "a").partitions) == 1


def delete(cluster: Cluster, *choices: str | UUID | TopicChoice) -> dict[Any, tuple[str, str | None]]:
    listed = []
    for choice in choices:
        if isinstance(choice, str):
            choice = TopicChoice(choice, uuids.ZERO)
        elif isinstance(choice, UUID):
            choice = TopicChoice(None, choice)
        listed.append(choice)
    return {r.name or r.topic_id: outcome(r) for r in cluster.run(DeleteTopics(listed))}


def test_delete_by_name_and_id() -> None:
    """If this fails, a deleted topic would stay, or keep its settings for the next one of that name."""
    cluster = Cluster.started()
    a, b = create(cluster, topic("a", retention_ms="1"), topic("b.b"))
    assert delete(cluster, "a", b.topic_id) == {"a": ("NONE", None), "b.b": ("NONE", None)}
    assert len(cluster.image.topics) == 0
    assert cluster.image.configs.topic("a") == {}
    (again,) = create(cluster, topic("b_b"))
    assert outcome(again)[0] == "NONE"
    assert a.topic_id != again.topic_id


def test_delete_refused() -> None:
    """If this fails, an ambiguous request would delete the wrong topic."""
    cluster = Cluster.started()
    (a, b, _) = create(cluster, topic("a"), topic("b"), topic("c"))
    unknown = UUID(int=12345)
    assert delete(cluster, "none", unknown, uuids.ZERO) == {
        "none": ("UNKNOWN_TOPIC_OR_PARTITION", "This server does not host this topic-partition."),
        unknown: ("UNKNOWN_TOPIC_ID", "This server does not host this topic ID."),
        uuids.ZERO: ("INVALID_REQUEST", "Neither topic name nor id were specified."),
    }
    assert delete(cluster, TopicChoice("a", a.topic_id), "c", "c") == {
        "a": ("INVALID_REQUEST", "You may not specify both topic name and topic id."),
        "c": ("INVALID_REQUEST", "Duplicate topic name."),
    }
    assert delete(cluster, "b", b.topic_id) == {
        "b": ("INVALID_REQUEST", "The provided topic name maps to an ID that was already supplied."),
    }
    assert delete(cluster, b.topic_id, b.topic_id) == {b.topic_id: ("INVALID_REQUEST", "Duplicate topic id.")}
    assert len(cluster.image.topics) == 3
