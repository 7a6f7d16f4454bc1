"""Metadata, DescribeTopicPartitions, DescribeCluster, FindCoordinator, ApiVersions."""

from __future__ import annotations

import uuid
from typing import Any

from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey
from tests.compat.differential.build import UNKNOWN_ID, create, metadata, new_topic
from tests.compat.differential.script import PATIENCE_S, Run, script
from tests.support.wait import until

# Served from version 12 on; earlier versions have the field.
FIRST_ID_VERSION = 10


@script(ApiKey.METADATA)
def metadata_of_topics(run: Run, version: int) -> None:
    name = run.topic("-b", partitions=3)
    other = run.topic("-a")

    def ask(label: str, request: messages.MetadataRequest, mine: bool = False) -> None:
        if not run.offer(label, request, version):
            return
        answer = run.answer(label)
        if mine and not isinstance(answer, str):
            answer.topics = [t for t in answer.topics if t.name in (name, other, "__consumer_offsets")]
            answer.topics.sort(key=lambda t: t.name)
        run.record(label, answer)

    # Version 0 requests all with an empty list, later versions with null; before version 4, topics are created if that
    # is enabled.
    create_is_said: dict[str, Any] = {"auto_create": version < 4}
    ask("all by null", metadata(None, **create_is_said), mine=True)
    ask("all or none by an empty list", metadata([], **create_is_said), mine=True)
    ask("one", metadata([name], **create_is_said))
    ask("two", metadata([name, other], **create_is_said))
    ask("one twice", metadata([name, name], **create_is_said))
    ask("internal", metadata(["__consumer_offsets"], **create_is_said))
    ask("metadata log", metadata(["__cluster_metadata"], **create_is_said))
    ask("internal that is not there", metadata(["__transaction_state"], **create_is_said))
    ask("unknown", metadata(["no-such-topic"], **create_is_said))
    ask("unknown twice", metadata(["no-such-topic", "no-such-topic"], **create_is_said))
    ask("unknown between known", metadata([name, "no-such-topic", other], **create_is_said))
    for label, wrong in {"empty": "", "dot": ".", "space": "a b", "long": "x" * 250, "umlaut": "ä"}.items():
        ask(f"name: {label}", metadata([wrong], **create_is_said))
    ask("unknown, creation allowed by the client", metadata(["no-such-topic"], True))
    ask("operations of topics", metadata([name, "no-such-topic"], include_topic_authorized_operations=True))
    ask("operations of the cluster", metadata([], include_cluster_authorized_operations=True))
    ask("both", metadata([name], False, (), include_topic_authorized_operations=True))


@script(ApiKey.METADATA, versions=range(FIRST_ID_VERSION, 14))
def metadata_by_id(run: Run, version: int) -> None:
    names = [run.topic(f"-{at}") for at in range(2)]
    ids = [run.topic_ids[name] for name in names]
    run.names.give("unknown topic", UNKNOWN_ID)
    topic = messages.MetadataRequest.MetadataRequestTopic

    def ask(label: str, *topics: Any) -> None:
        run.ask(label, messages.MetadataRequest(topics=list(topics), allow_auto_topic_creation=False), version)

    ask("one", topic(name=None, topic_id=ids[0]))
    ask("both", topic(name=None, topic_id=ids[0]), topic(name=None, topic_id=ids[1]))
    ask("unknown", topic(name=None, topic_id=UNKNOWN_ID))
    ask("known and unknown", topic(name=None, topic_id=ids[0]), topic(name=None, topic_id=UNKNOWN_ID))
    ask("twice", topic(name=None, topic_id=ids[0]), topic(name=None, topic_id=ids[0]))
    ask("unknown twice", topic(name=None, topic_id=UNKNOWN_ID), topic(name=None, topic_id=UNKNOWN_ID))
    ask("with its name", topic(name=names[0], topic_id=ids[0]))
    ask("with the name of another", topic(name=names[1], topic_id=ids[0]))
    ask("name and id", topic(name=names[0]), topic(name=None, topic_id=ids[1]))
    ask("neither", topic(name=None))
    ask("neither, and a name", topic(name=None), topic(name=names[0]))
    ask("zero id and a name", topic(name=names[0], topic_id=uuid.UUID(int=0)))


@script(ApiKey.METADATA, broker="auto")
def metadata_creates(run: Run, version: int) -> None:
    """Topics that a Metadata request creates."""

    def ask(label: str, names: list[str], allowed: bool = True) -> None:
        run.client().send(metadata(names, allowed), version)
        answer = run.client().receive()
        assert not isinstance(answer, str)
        # Kafka answers before it has created the topic; the second request shows it.
        created = sorted(t.name for t in answer.topics if t.error_code in (0, 3, 5) and t.name.startswith(run.name))
        run.record(label, answer)
        for name in created if allowed else ():
            run.learn_topic(name, 2)
            run.ask(f"{label}: {name} as it is", metadata([name], allowed), version)

    if version >= 4:
        ask("not allowed by the client", [f"{run.name}-no"], False)
    ask("created", [f"{run.name}-1"])
    ask("two created", [f"{run.name}-2", f"{run.name}-3"])
    ask("name that is not allowed", ["a b"])
    ask("empty name", [""])
    ask("metadata log", ["__cluster_metadata"])
    run.quietly(create(new_topic(f"{run.name}_a", 2)), 7)
    run.learn_topic(f"{run.name}_a", 2)
    run.ask("collides", metadata([f"{run.name}.a"], True), version)


@script(ApiKey.DESCRIBE_TOPIC_PARTITIONS)
def topic_partitions(run: Run, version: int) -> None:
    a, b, c = (run.topic(f"-{letter}", partitions=3) for letter in "abc")
    request = messages.DescribeTopicPartitionsRequest

    def ask(label: str, names: list[str], limit: int = 2000, cursor: tuple[str, int] | None = None) -> None:
        run.ask(
            label,
            request(
                topics=[request.TopicRequest(name=name) for name in names],
                response_partition_limit=limit,
                cursor=None if cursor is None else request.Cursor(topic_name=cursor[0], partition_index=cursor[1]),
            ),
            version,
        )

    ask("one", [a])
    ask("not in order", [c, a, b])
    ask("twice", [a, a])
    ask("unknown", ["no-such-topic"])
    ask("unknown among known", [a, "no-such-topic", c])
    for label, wrong in {"empty": "", "space": "a b", "dot": ".", "long": "x" * 250}.items():
        ask(f"name: {label}", [wrong])
    ask("names that are not allowed, and a good one", ["a b", a])
    ask("internal", ["__consumer_offsets"])
    ask("internal that is not there", ["__transaction_state"])
    for limit in (-1, 0, 1, 2, 3, 4, 6, 7, 9):
        ask(f"limit {limit}", [a, b, c], limit)
    for index in (-2, -1, 0, 1, 2, 3, 7):
        ask(f"from {index} of the second", [a, b, c], 2000, (b, index))
    ask("from the first, limit 2", [a, b, c], 2, (a, 1))
    ask("from the last one's end", [a, b, c], 2000, (c, 3))
    ask("from between", [a, c], 2000, (b, 1))
    ask("from a topic that was not asked for", [b, c], 2000, (a, 1))
    ask("from a topic that is gone", [a, c], 2000, (f"{a}x", 1))
    ask("from behind all", [a, b], 2000, ("~", 0))
    ask("from an unknown topic", [a, "no-such-topic"], 2000, ("no-such-topic", 0))
    ask("unknown, limit 1", ["a-no-such-topic", a, b], 1)


@script(ApiKey.DESCRIBE_TOPIC_PARTITIONS, broker="auto")
def topic_partitions_bounded(run: Run, version: int) -> None:
    name = run.topic(partitions=5)
    request = messages.DescribeTopicPartitionsRequest
    asked = request(topics=[request.TopicRequest(name=name)], response_partition_limit=4)
    run.ask("max.request.partition.size.limit is 3", asked, version)


@script(ApiKey.DESCRIBE_CLUSTER)
def cluster(run: Run, version: int) -> None:
    request = messages.DescribeClusterRequest
    run.ask("plain", request(), version)
    run.ask("operations", request(include_cluster_authorized_operations=True), version)
    run.ask("fenced", request(include_fenced_brokers=True), version)
    for kind in (0, 2, 3, -1):
        run.ask(f"endpoint type {kind}", request(endpoint_type=kind), version)


@script(ApiKey.LIST_CONFIG_RESOURCES)
def config_resources(run: Run, version: int) -> None:
    name = run.topic()
    request = messages.ListConfigResourcesRequest
    own = {name, "__consumer_offsets", "1"}

    def ask(label: str, *types: int) -> None:
        if not run.offer(label, request(resource_types=list(types)), version):
            return
        answer = run.answer(label)
        assert not isinstance(answer, str)
        # Other scripts also create topics.
        answer.config_resources = [each for each in answer.config_resources if each.resource_name in own]
        answer.config_resources.sort(key=lambda each: (each.resource_type, each.resource_name))
        run.record(label, answer)

    ask("all")
    for kind in (-1, 0, 1, 2, 4, 8, 16, 32, 64):
        ask(f"type {kind}", kind)
    ask("two types", 2, 4)
    ask("a type twice", 4, 4)
    ask("a good and a bad type", 4, 3)


@script(ApiKey.FIND_COORDINATOR)
def coordinators(run: Run, version: int) -> None:
    request = messages.FindCoordinatorRequest

    def ask(label: str, *keys: str, key_type: int = 0) -> None:
        if version >= 4:
            run.ask(label, request(key_type=key_type, coordinator_keys=list(keys)), version)
        elif len(keys) == 1:
            run.ask(label, request(key_type=key_type, key=keys[0]), version)

    ask("group", "g")
    ask("empty group", "")
    ask("groups", "g", "h", "g")
    ask("one empty", "g", "")
    ask("none")
    for kind in (3, -1):
        ask(f"type {kind}", "g", key_type=kind)


@script(ApiKey.FIND_COORDINATOR, broker="restarted", versions=range(1, 7))
def coordinators_of_others(run: Run, version: int) -> None:
    """Coordinators of transactions and share groups."""
    request = messages.FindCoordinatorRequest

    def ask(label: str, key: str, key_type: int) -> None:
        if version >= 4:
            run.ask(label, request(key_type=key_type, coordinator_keys=[key]), version)
        else:
            run.ask(label, request(key_type=key_type, key=key), version)

    # Kafka answers the first request only after it has created the topic.
    first = request(key_type=1, coordinator_keys=["first"])
    until(lambda: run.quietly(first, 4).coordinators[0].error_code == 0, "the topic of transactions", PATIENCE_S)
    ask("empty transaction", "", 1)
    ask("share, malformed", "g", 2)
    ask("share, empty", "", 2)


@script(ApiKey.API_VERSIONS)
def api_versions(run: Run, version: int) -> None:
    def ask(label: str, name: str = "", program: str = "") -> None:
        request = messages.ApiVersionsRequest(client_software_name=name, client_software_version=program)
        run.ask(label, request, version)

    ask("ordinary", "apache-kafka-java", "4.3.1")
    if version < 3:
        return
    for label, text in {
        "empty": "",
        "letter": "a",
        "dot first": ".a",
        "dot last": "a.",
        "dash last": "a-",
        "space": "a b",
        "underscore": "a_b",
        "umlaut": "ä",
        "newline": "a\n",
        "long": "a" * 3000,
    }.items():
        ask(f"name: {label}", text, "1")
        ask(f"version: {label}", "a", text)


@script(ApiKey.API_VERSIONS)
def api_versions_of_the_future(run: Run, version: int) -> None:
    """Requested once for each version, because a version must be given."""
    client = run.client()
    for later in (5, 99, 32767):
        client.send_body(int(ApiKey.API_VERSIONS), later, b"nobody knows what this means")
        run.record(f"version {later}", client.receive(answered_version=0))
    client.send_body(int(ApiKey.API_VERSIONS), -1, b"")
    run.record("version -1", client.receive(answered_version=0))
    run.ask("goes on", messages.ApiVersionsRequest(client_software_name="a", client_software_version="1"), version)
