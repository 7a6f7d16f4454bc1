"""An administrator's work with kafka-python."""

from __future__ import annotations

import time
import uuid
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, MemberToRemove, OffsetSpec
from kafka.errors import (
    InvalidConfigurationError,
    InvalidPartitionsError,
    InvalidReplicationFactorError,
    InvalidTopicError,
    NoError,
    TopicAlreadyExistsError,
    UnknownMemberIdError,
    UnknownTopicOrPartitionError,
)

from tests.support.broker import Target
from tests.support.kafka_python import TIMEOUT_S, MakeConsumer, create, take
from tests.support.wait import until


class TestAdmin:
    """An administrator's calls."""

    def test_topics_come_and_go(self, admin: KafkaAdminClient, topic: str) -> None:
        """If this fails, a topic cannot be created, described, or deleted."""
        made = create(admin, topic, 2, {"retention.ms": "1000000"})
        assert (made["num_partitions"], made["replication_factor"]) == (2, 1)
        assert made["configs"]["retention.ms"] == {
            "config_source": "DYNAMIC_TOPIC_CONFIG",
            "is_sensitive": False,
            "read_only": False,
            "value": "1000000",
        }
        assert made["configs"]["segment.bytes"]["value"] == "1073741824"
        (described,) = admin.describe_topics([topic])
        assert described["topic_id"] == made["topic_id"]
        broker_id = admin.describe_cluster()["brokers"][0]["broker_id"]
        assert described["partitions"][1] == {
            "error_code": 0,
            "partition_index": 1,
            "leader_id": broker_id,
            "leader_epoch": 0,
            "replica_nodes": [broker_id],
            "isr_nodes": [broker_id],
            "offline_replicas": [],
        }
        assert topic in admin.list_topics()
        with pytest.raises(TopicAlreadyExistsError):
            create(admin, topic)
        assert admin.delete_topics([topic])["topics"][0]["topic_id"] == made["topic_id"]
        until(lambda: topic not in admin.list_topics(), f"{topic} to go")
        with pytest.raises(UnknownTopicOrPartitionError):
            admin.delete_topics([topic])

    def test_topics_by_id(self, admin: KafkaAdminClient, topic: str) -> None:
        """If this fails, a tool that works with topic ids (KIP-516) finds or deletes nothing, or the wrong topic."""
        topic_id = uuid.UUID(str(create(admin, topic)["topic_id"]))
        assert [found["name"] for found in admin.describe_topics([topic_id])] == [topic]
        admin.delete_topics([topic_id])
        until(lambda: topic not in admin.list_topics(), f"{topic} to go")

    def test_errors(self, admin: KafkaAdminClient, topic: str) -> None:
        """If this fails, an invalid topic is created, or the error does not give the reason."""
        wrong: list[tuple[type[Exception], str, dict[str, Any]]] = [
            (InvalidTopicError, "a/b", {"num_partitions": 1, "replication_factor": 1}),
            (InvalidTopicError, "..", {"num_partitions": 1, "replication_factor": 1}),
            (InvalidPartitionsError, topic, {"num_partitions": 0, "replication_factor": 1}),
            (InvalidReplicationFactorError, topic, {"num_partitions": 1, "replication_factor": 2}),
            (InvalidConfigurationError, topic, {"num_partitions": 1, "replication_factor": 1, "configs": {"x": "1"}}),
        ]
        for error, name, spec in wrong:
            with pytest.raises(error):
                admin.create_topics({name: spec})
        assert topic not in admin.list_topics()

    def test_partitions(self, admin: KafkaAdminClient, topic: str) -> None:
        """If this fails, a topic cannot grow, or can shrink."""
        create(admin, topic, 2)
        admin.create_partitions({topic: 5}, validate_only=True)
        assert len(admin.describe_topics([topic])[0]["partitions"]) == 2
        admin.create_partitions({topic: 5})
        until(lambda: len(admin.describe_topics([topic])[0]["partitions"]) == 5, "5 partitions")
        for count in (5, 3):
            with pytest.raises(InvalidPartitionsError):
                admin.create_partitions({topic: count})

    def test_pages_of_partitions(self, admin: KafkaAdminClient, topic: str) -> None:
        """If this fails, a description in pages (KIP-966) skips or repeats partitions."""
        create(admin, topic, 5)
        seen: list[int] = []
        cursor = None
        for _ in range(10):
            page = admin.describe_topic_partitions([topic], response_partition_limit=2, cursor=cursor)
            seen += [partition["partition_index"] for found in page["topics"] for partition in found["partitions"]]
            cursor = page["next_cursor"]
            if cursor is None:
                break
        assert seen == [0, 1, 2, 3, 4]

    @pytest.mark.parametrize("incremental", [True, False])
    def test_settings(self, admin: KafkaAdminClient, topic: str, incremental: bool) -> None:
        """If this fails, a setting is not stored, or changes others too, with the newer or the older call."""
        create(admin, topic, 1, {"segment.ms": "3600000"})

        def shown() -> dict[str, Any]:
            found: dict[str, Any] = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])["topic"][
                topic
            ]
            return {name: setting["value"] for name, setting in found.items()}

        assert shown() == {"segment.ms": "3600000"}
        change = ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": "55000"})
        assert admin.alter_configs([change], incremental=incremental) == {"topic": {topic: "OK"}}
        until(lambda: shown() == {"segment.ms": "3600000", "retention.ms": "55000"}, f"both settings; got {shown()}")
        back = ConfigResource(ConfigResourceType.TOPIC, topic, ["retention.ms"])
        assert admin.reset_configs([back], incremental=incremental) == {"topic": {topic: "OK"}}
        until(lambda: shown() == {"segment.ms": "3600000"}, "one setting")

    def test_settings_with_their_synonyms(self, admin: KafkaAdminClient, topic: str) -> None:
        """If this fails, a tool cannot tell where a value comes from."""
        create(admin, topic, 1, {"retention.ms": "1000000"})
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        shown = admin.describe_configs([resource], include_synonyms=True, config_filter="all")["topic"][topic]
        assert len(shown) >= 30
        assert shown["retention.ms"]["config_type"] == "LONG"
        first = shown["retention.ms"]["synonyms"][0]
        assert (first["name"], first["value"], first["source"]) == ("retention.ms", "1000000", "DYNAMIC_TOPIC_CONFIG")
        assert [found["name"] for found in shown["segment.bytes"]["synonyms"]] == ["log.segment.bytes"]
        assert shown["segment.bytes"]["config_source"] == "DEFAULT_CONFIG"

    def test_cluster(self, admin: KafkaAdminClient, broker: Target, ten: str) -> None:
        """If this fails, tools cannot find the brokers or their supported versions."""
        cluster = admin.describe_cluster()
        (node,) = cluster["brokers"]
        assert (node["host"], node["port"], node["rack"]) == (broker.host, broker.port, None)
        assert cluster["controller_id"] == node["broker_id"]
        features = admin.describe_features()
        assert features["metadata.version"]["finalized"][0] >= 7
        topics = admin.list_config_resources()["topic"]
        assert "broker" in admin.list_config_resources()
        assert ten in str(topics)

    def test_log_directories(self, admin: KafkaAdminClient, broker: Target, ten: str) -> None:
        """If this fails, users cannot see what uses the disk space."""
        (found,) = admin.describe_log_dirs()
        (directory,) = found["log_dirs"]
        assert directory["error_code"] == 0
        assert directory["log_dir"] == str(broker.data_dir)
        assert 0 < directory["usable_bytes"] <= directory["total_bytes"]
        (mine,) = [shown for shown in directory["topics"] if shown["name"] == ten]
        (partition,) = mine["partitions"]
        on_disk = (broker.data_dir / f"{ten}-0" / f"{0:020}.log").stat().st_size
        assert partition == {"partition_index": 0, "partition_size": on_disk, "offset_lag": 0, "is_future_key": False}

    def test_offsets_by_spec(self, admin: KafkaAdminClient, producer: KafkaProducer, topic: str) -> None:
        """If this fails, lag tools and resets by time work with wrong offsets."""
        create(admin, topic)
        base = int(time.time() * 1000) - 60_000
        for offset, delta in enumerate((0, 500, 100)):
            producer.send(topic, b"%d" % offset, partition=0, timestamp_ms=base + delta)
            producer.flush(TIMEOUT_S)
        partition = TopicPartition(topic, 0)

        def ask(spec: Any) -> tuple[int, int, int | None]:
            found = admin.list_partition_offsets({partition: spec})[partition]
            return found.offset, found.timestamp, found.leader_epoch

        assert ask(OffsetSpec.EARLIEST) == (0, -1, 0)
        assert ask(OffsetSpec.LATEST) == (3, -1, 0)
        assert ask(OffsetSpec.MAX_TIMESTAMP) == (1, base + 500, 0)
        assert ask(base + 1) == (1, base + 500, 0)

    def test_delete_records(self, admin: KafkaAdminClient, ten: str, make_consumer: MakeConsumer) -> None:
        """If this fails, deleted records come back, or others are deleted with them."""
        partition = TopicPartition(ten, 0)
        assert admin.delete_records({partition: 7})[partition]["low_watermark"] == 7
        assert make_consumer().beginning_offsets([partition]) == {partition: 7}
        assert admin.delete_records({partition: -1})[partition]["low_watermark"] == 10  # all records

    def test_groups(self, admin: KafkaAdminClient, ten: str, group: str, make_consumer: MakeConsumer) -> None:
        """If this fails, a group cannot be found, described, given other offsets, or deleted."""
        consumer = make_consumer(ten)
        take(consumer, 5)
        consumer.commit()
        partition = TopicPartition(ten, 0)
        (listed,) = [found for found in admin.list_groups() if found["group_id"] == group]
        assert listed == {
            "group_id": group,
            "group_state": "Stable",
            "group_type": "classic",
            "protocol_type": "consumer",
        }
        assert group not in [found["group_id"] for found in admin.list_groups(states_filter=["Empty"])]
        described = admin.describe_groups([group])[group]
        assert (described["group_state"], described["protocol_data"], described["error"]) == ("Stable", "range", None)
        (member,) = described["members"]
        assert member["client_host"] == "/127.0.0.1"
        assert member["member_assignment"]["assigned_partitions"] == [{"topic": ten, "partitions": [0]}]
        assert admin.list_group_offsets([group])[group][partition].offset == 5
        assert admin.delete_groups([group]) == {group: "NonEmptyGroupError"}
        assert admin.remove_group_members(group, [_member("nobody")]) == {"nobody": UnknownMemberIdError}
        assert admin.remove_group_members(group, [_member(member["member_id"])]) == {member["member_id"]: NoError}
        consumer.close()
        until(lambda: admin.describe_groups([group])[group]["group_state"] == "Empty", "the group to be empty")
        assert admin.alter_group_offsets(group, {partition: OffsetAndMetadata(2, "note", -1)}) == {partition: NoError}
        changed = admin.list_group_offsets([group])[group][partition]
        assert (changed.offset, changed.metadata) == (2, "note")
        assert admin.delete_group_offsets(group, [partition]) == {partition: NoError}
        assert partition not in admin.list_group_offsets([group])[group]
        assert admin.delete_groups([group]) == {group: "OK"}
        assert group not in [found["group_id"] for found in admin.list_groups()]


def _member(member_id: str) -> Any:
    return MemberToRemove(member_id=member_id)
