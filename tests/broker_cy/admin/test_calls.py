"""Every call of the admin core that changes or reads topics, settings, offsets and groups, against both clusters."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from broker_cy.admin import AdminClient, ClientError, Failure
from broker_cy.admin.configs import (
    AlterOp,
    ConfigChange,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.topics import HIGH_WATERMARK, NewTopic
from broker_cy.core.configs import ConfigSource, ConfigType
from broker_cy.core.errors import ErrorCode
from tests.broker_cy.admin.conftest import Run
from tests.support.broker import BrokerProcess
from tests.support.kafka_peer import KafkaPeer


def test_the_cluster_is_described(run: Run, cluster: BrokerProcess | KafkaPeer) -> None:
    """If this fails, the overview names a wrong broker, address or controller."""

    async def job(client: AdminClient) -> None:
        described = await client.cluster.describe()
        assert len(described.cluster_id) == 22
        (broker,) = described.brokers
        assert (broker.host, broker.port, broker.is_fenced) == ("127.0.0.1", cluster.port, False)
        assert described.controller_id == broker.broker_id
        features = {each.name: each for each in await client.cluster.features()}
        version = features["metadata.version"]
        assert version.finalized is not None
        assert version.supported_min <= version.finalized <= version.supported_max
        ranges = {each.name: each for each in await client.cluster.api_versions(broker.broker_id)}
        assert (ranges["ListOffsets"].api_key, ranges["ListOffsets"].min_version) == (2, 1)

    run(job)


def test_the_quorum_is_reported(run: Run, cluster: BrokerProcess | KafkaPeer) -> None:
    """If this fails, an operator cannot see which controller leads, or how far the others lag."""

    async def job(client: AdminClient) -> None:
        quorum = await client.quorum.describe()
        assert quorum.leader_id == 1
        assert [(each.replica_id, each.lag) for each in quorum.voters] == [(1, 0)]
        assert quorum.high_watermark > 0

    run(job)


def test_the_life_of_a_topic(run: Run, name: str) -> None:
    """If this fails, a topic cannot be created, cloned, grown or deleted, or the list is wrong."""

    async def job(client: AdminClient) -> None:
        new = NewTopic(name, 3, 1, {"retention.ms": "86400000", "cleanup.policy": "compact"})
        would = (await client.topics.create([new], validate_only=True)).whole()[name]
        assert (would.partitions, would.replication_factor) == (3, 1)
        assert name not in {topic.name for topic in await client.topics.list_all()}
        created = (await client.topics.create([new])).whole()[name]
        listed = {topic.name: topic for topic in await client.topics.list_all()}
        assert listed[name].topic_id == created.topic_id
        assert [part.partition for part in listed[name].partitions] == [0, 1, 2]
        assert not any(part.is_offline or part.is_under_replicated for part in listed[name].partitions)

        clone = f"{name}-clone"
        made = await client.topics.clone(name, clone)
        assert (made.name, made.partitions, made.replication_factor) == (clone, 3, 1)
        resource = ConfigResource(ResourceType.TOPIC, clone)
        settings = (await client.configs.describe([resource])).whole()[resource]
        own = {each.name: each.value for each in settings if each.source is ConfigSource.DYNAMIC_TOPIC_CONFIG}
        assert own == {"retention.ms": "86400000", "cleanup.policy": "compact"}

        grown = await client.topics.add_partitions({name: 5, clone: 2})
        assert grown.found == {name: True}
        assert grown.failed[clone].code is ErrorCode.INVALID_PARTITIONS
        described = await client.topics.describe([name, "no-such-topic"])
        assert len(described.found[name].partitions) == 5
        assert described.failed["no-such-topic"].code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

        gone = await client.topics.delete([name, clone, "no-such-topic"])
        assert gone.found == {name: True, clone: True}
        assert gone.failed["no-such-topic"].what == "topic no-such-topic"
        assert not {name, clone} & {topic.name for topic in await client.topics.list_all()}

    run(job)


def test_a_refused_topic_says_why(run: Run, name: str, cluster: BrokerProcess | KafkaPeer) -> None:
    """If this fails, an error does not show which name or setting is invalid, what rejected it and why."""

    async def job(client: AdminClient) -> None:
        outcome = await client.topics.create(
            [NewTopic("a b", 1, 1), NewTopic(name, 1, 1, {"retention.ms": "soon"}), NewTopic(f"{name}-2", 1, 7)]
        )
        assert outcome.found == {}
        bad_name, bad_value, too_many = outcome.failed.values()
        assert (bad_name.code, bad_name.api) == (ErrorCode.INVALID_TOPIC_EXCEPTION, "CreateTopics")
        assert (bad_name.what, bad_name.broker) == ("topic a b", f"1 ({cluster.bootstrap})")
        assert bad_value.code is ErrorCode.INVALID_CONFIG
        assert "retention.ms" in bad_value.reason
        assert too_many.code is ErrorCode.INVALID_REPLICATION_FACTOR
        with pytest.raises(ClientError, match=r"CreateTopics, broker 1 .*: topic a b: INVALID_TOPIC_EXCEPTION: "):
            outcome.whole()

    run(job)


async def settings_once(
    client: AdminClient, resource: ConfigResource, is_there: Callable[[tuple[ConfigEntry, ...]], bool]
) -> tuple[ConfigEntry, ...]:
    """Request the settings of `resource` until a change has reached the requested broker."""
    deadline = client.caller.deadline()
    attempt = 1
    while True:
        entries = (await client.configs.describe([resource], documentation=True)).whole()[resource]
        if is_there(entries):
            return entries
        assert await deadline.back_off(attempt), f"the change never arrived: {entries}"
        attempt += 1


def test_settings_with_their_source(run: Run, name: str) -> None:
    """If this fails, a change of a setting is lost, affects another one, or the console shows a wrong source."""

    async def job(client: AdminClient) -> None:
        (await client.topics.create([NewTopic(name, 1, 1)])).whole()
        topic = ConfigResource(ResourceType.TOPIC, name)
        missing = ConfigResource(ResourceType.BROKER, "99")
        changes = [
            ConfigChange("retention.ms", AlterOp.SET, "1000"),
            ConfigChange("cleanup.policy", AlterOp.APPEND, "compact"),
        ]
        checked = await client.configs.alter({topic: changes}, validate_only=True)
        assert checked.found == {topic: True}
        before = (await client.configs.describe([topic], names=["retention.ms"])).whole()[topic]
        assert [(each.name, each.is_default) for each in before] == [("retention.ms", True)]
        altered = await client.configs.alter({topic: changes, missing: []})
        assert altered.found == {topic: True}
        assert "no broker 99" in altered.failed[missing].reason
        described = await settings_once(client, topic, lambda entries: "1000" in {each.value for each in entries})
        by_name = {each.name: each for each in described}
        retention = by_name["retention.ms"]
        assert (retention.value, retention.source) == ("1000", ConfigSource.DYNAMIC_TOPIC_CONFIG)
        assert (retention.kind, retention.is_read_only) == (ConfigType.LONG, False)
        assert retention.synonyms[0].source is ConfigSource.DYNAMIC_TOPIC_CONFIG
        assert retention.documentation
        assert by_name["cleanup.policy"].value in ("delete,compact", "compact,delete")
        reset = await client.configs.alter({topic: [ConfigChange("retention.ms", AlterOp.DELETE)]})
        assert reset.found == {topic: True}
        await settings_once(
            client, topic, lambda entries: any(each.name == "retention.ms" and each.is_default for each in entries)
        )
        refused = await client.configs.alter({topic: [ConfigChange("no.such", AlterOp.SET, "1")]})
        assert refused.failed[topic].code is ErrorCode.INVALID_CONFIG

    run(job)


def test_a_brokers_settings_come_from_that_broker(run: Run) -> None:
    """If this fails, the settings of one broker are shown as those of another."""

    async def job(client: AdminClient) -> None:
        node, word = ConfigResource(ResourceType.BROKER, "1"), ConfigResource(ResourceType.BROKER, "one")
        described = await client.configs.describe([node, word])
        by_name = {each.name: each for each in described.found[node]}
        assert by_name["node.id"].value == "1"
        assert by_name["node.id"].is_read_only
        quick = by_name["group.min.session.timeout.ms"]
        assert (quick.value, quick.source) == ("500", ConfigSource.STATIC_BROKER_CONFIG)
        assert "a number is expected" in described.failed[word].reason

    run(job)


def test_offsets_of_a_group(run: Run, name: str) -> None:
    """If this fails, a reset commits the wrong offsets, or overwrites those of other partitions."""

    async def job(client: AdminClient) -> None:
        (await client.topics.create([NewTopic(name, 3, 1)])).whole()
        first, second, other = (TopicPartition(name, index) for index in range(3))
        nowhere = TopicPartition("no-such-topic", 0)
        committed = await client.group_offsets.alter(name, {first: 0, second: 2**53 + 1, nowhere: 1})
        assert committed.found == {first: 0, second: 2**53 + 1}
        assert committed.failed[nowhere].code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert f"group {name}" in str(committed.failed[nowhere])
        fetched = (await client.group_offsets.fetch([name, "no-such-group"], stable=True)).whole()
        assert {key: each.offset for key, each in fetched[name].items()} == {first: 0, second: 2**53 + 1}
        assert fetched["no-such-group"] == {}

        (group,) = (each for each in await client.groups.listed() if each.group_id == name)
        assert (group.state, group.group_type) == ("Empty", "classic")
        assert name not in {each.group_id for each in await client.groups.listed(states=["Stable"])}
        assert name not in {each.group_id for each in await client.groups.listed(types=["consumer"])}
        described = await client.groups.describe([name, "no-such-group"])
        assert (described.found[name].state, described.found[name].members) == ("Empty", ())
        assert described.failed["no-such-group"].code is ErrorCode.GROUP_ID_NOT_FOUND

        deleted = await client.group_offsets.delete(name, [first, other])
        assert deleted.found[first] is True
        left = (await client.group_offsets.fetch([name])).whole()[name]
        assert list(left) == [second]
        gone = await client.groups.delete([name, "no-such-group"])
        assert gone.found == {name: True}
        assert gone.failed["no-such-group"].code is ErrorCode.GROUP_ID_NOT_FOUND

    run(job)


def test_impossible_values_are_refused_before_anything_is_sent(run: Run, name: str) -> None:
    """If this fails, a typing error is sent to the broker, and comes back as its error."""

    async def job(client: AdminClient) -> None:
        key = TopicPartition(name, 0)
        for call, expected in (
            (client.group_offsets.alter(name, {key: -1}), "0 or more"),
            (client.topics.delete_records({key: -2}), "0 or more, or -1"),
            (client.offsets.at({key: -4}), "-3 (largest)"),
        ):
            with pytest.raises(ClientError) as raised:
                await call
            assert raised.value.failure is Failure.INVALID
            assert expected in raised.value.reason
        with pytest.raises(ClientError, match="above 0"):
            client.with_timeout(0)

    run(job)


def test_records_of_an_empty_topic_are_deleted(run: Run, name: str) -> None:
    """If this fails, deleting records fails if there are none, or deletes beyond the end."""

    async def job(client: AdminClient) -> None:
        (await client.topics.create([NewTopic(name, 2, 1)])).whole()
        first, second = TopicPartition(name, 0), TopicPartition(name, 1)
        deleted = await client.topics.delete_records({first: HIGH_WATERMARK, second: 7})
        assert deleted.found == {first: 0}
        assert deleted.failed[second].code is ErrorCode.OFFSET_OUT_OF_RANGE
        assert (await client.offsets.earliest([first])).found == (await client.offsets.latest([first])).found
        unknown = await client.offsets.latest([TopicPartition(name, 9), TopicPartition("no-such-topic", 0)])
        assert {error.code for error in unknown.failed.values()} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}

    run(job)
