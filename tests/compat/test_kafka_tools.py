"""Kafka's own command-line tools, as their scripts start them (such as kafka-topics.sh)."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka import TopicPartition

from tests.support.broker import Target
from tests.support.confluent import close_consumer, new_consumer, read_all, send
from tests.support.kafka_dump import dump_log_segments
from tests.support.kafka_tools import run_tool
from tests.support.raw_wire import API_VERSIONS, Connection
from tests.support.topics import create_topic

_TOOLS = "org.apache.kafka.tools."


def tool(broker: Target, name: str, *arguments: str, stdin: bytes = b"", check: bool = True) -> str:
    """Return the tool's output on stdout and stderr."""
    class_name = name if name.startswith("kafka.") else _TOOLS + name
    done = run_tool(class_name, "--bootstrap-server", broker.bootstrap, *arguments, stdin=stdin, check=check)
    return done.stdout.decode() + done.stderr.decode()


def words(line: str) -> list[str]:
    return line.split()


def test_topics(broker: Target, topic: str) -> None:
    """If this fails, kafka-topics cannot create, describe, grow, or delete a topic."""
    assert f"Created topic {topic}." in tool(
        broker, "TopicCommand", "--create", "--topic", topic, "--partitions", "3", "--config", "retention.ms=100000"
    )
    tool(broker, "TopicCommand", "--alter", "--topic", topic, "--partitions", "4")
    shown = tool(broker, "TopicCommand", "--describe", "--topic", topic).splitlines()
    assert re.search(r"PartitionCount: 4\tReplicationFactor: 1\tConfigs: .*retention.ms=100000", shown[0])
    assert [re.search(r"Partition: (\d+)", line).group(1) for line in shown[1:5]] == ["0", "1", "2", "3"]  # type: ignore[union-attr]
    again = tool(broker, "TopicCommand", "--create", "--topic", topic, check=False)
    assert f"Topic '{topic}' already exists" in again
    tool(broker, "TopicCommand", "--delete", "--topic", topic)
    assert topic not in tool(broker, "TopicCommand", "--list").splitlines()


def test_settings(broker: Target, topic: str) -> None:
    """If this fails, kafka-configs does not show or change a setting."""
    create_topic(broker.bootstrap, topic, 1, {"retention.ms": "100000"})
    entity = ["--entity-type", "topics", "--entity-name", topic]
    change = ["--add-config", "segment.ms=50000", "--delete-config", "retention.ms"]
    assert "Completed updating config" in tool(broker, "kafka.admin.ConfigCommand", "--alter", *entity, *change)
    shown = tool(broker, "kafka.admin.ConfigCommand", "--describe", *entity)
    assert "segment.ms=50000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:segment.ms=50000}" in shown
    assert "retention.ms=" not in shown
    everything = tool(broker, "kafka.admin.ConfigCommand", "--describe", "--all", *entity)
    assert (
        "segment.bytes=1073741824 sensitive=false synonyms={DEFAULT_CONFIG:log.segment.bytes=1073741824}" in everything
    )


def test_broker_defaults(broker: Target) -> None:
    """If this fails, kafka-configs cannot set a default for all brokers."""
    entity = ["--entity-type", "brokers", "--entity-default"]
    tool(broker, "kafka.admin.ConfigCommand", "--alter", *entity, "--add-config", "log.retention.ms=99999999")
    shown = tool(broker, "kafka.admin.ConfigCommand", "--describe", *entity)
    assert "log.retention.ms=99999999" in shown
    wrong = tool(broker, "kafka.admin.ConfigCommand", "--alter", *entity, "--add-config", "log.dirs=/tmp", check=False)
    assert "Cannot update these configs dynamically" in wrong


def test_console_clients_and_groups(broker: Target, topic: str, group: str) -> None:
    """If this fails, the Java clients, or the tool that watches their groups, do not work."""
    create_topic(broker.bootstrap, topic)
    lines = b"".join(b"k%d:v%d\n" % (number, number) for number in range(100))
    parse = ["--reader-property", "parse.key=true", "--reader-property", "key.separator=:"]
    tool(broker, "ConsoleProducer", "--topic", topic, *parse, "--compression-codec", "zstd", stdin=lines)
    read = ["--topic", topic, "--group", group, "--from-beginning", "--max-messages", "60", "--timeout-ms", "30000"]
    shown = tool(broker, "consumer.ConsoleConsumer", *read, "--formatter-property", "print.key=true")
    got = [line for line in shown.splitlines() if line.startswith("k")]
    assert got == [f"k{number}\tv{number}" for number in range(60)]
    described = tool(broker, "consumer.group.ConsumerGroupCommand", "--describe", "--group", group)
    rows = [words(line) for line in described.splitlines() if line.startswith(group)]
    assert rows == [[group, topic, "0", "60", "100", "40", "-", "-", "-"]]
    reset = ["--reset-offsets", "--group", group, "--topic", topic, "--shift-by", "-10", "--execute"]
    rows = [words(line) for line in tool(broker, "consumer.group.ConsumerGroupCommand", *reset).splitlines()]
    assert [group, topic, "0", "50"] in rows
    listed = tool(broker, "consumer.group.ConsumerGroupCommand", "--list", "--state", "--type")
    assert [group, "Classic", "Empty"] in [words(line) for line in listed.splitlines()]
    deleted = tool(broker, "consumer.group.ConsumerGroupCommand", "--delete", "--group", group)
    assert "was successful" in deleted


def test_members_of_a_group(broker: Target, topic: str, group: str) -> None:
    """If this fails, kafka-consumer-groups does not show which member reads what."""
    create_topic(broker.bootstrap, topic, 2)
    consumer = new_consumer(broker.bootstrap, group, client_id="a-reader")
    try:
        consumer.subscribe([topic])
        while len(consumer.assignment()) < 2:
            consumer.poll(0.1)
        command = ["--describe", "--members", "--verbose", "--group", group]
        shown = tool(broker, "consumer.group.ConsumerGroupCommand", *command)
    finally:
        close_consumer(consumer)
    (row,) = [words(line) for line in shown.splitlines() if line.startswith(group)]
    assert row[2:5] == ["/127.0.0.1", "a-reader", "2"]
    assert f"{topic}:0,1" in row


def test_performance_tools(broker: Target, topic: str) -> None:
    """If this fails, kafka-producer-perf-test or kafka-consumer-perf-test cannot measure the broker."""
    create_topic(broker.bootstrap, topic, 2)
    load = ["--topic", topic, "--num-records", "20000", "--record-size", "200", "--throughput", "-1"]
    told = tool(broker, "ProducerPerformance", *load, "--command-property", "acks=all")
    assert "20000 records sent" in told
    shown = tool(broker, "ConsumerPerformance", "--topic", topic, "--num-records", "20000", "--timeout", "30000")
    columns = [column.strip() for column in shown.strip().splitlines()[-1].split(",")]
    assert int(columns[4]) == 20000


def test_offsets(broker: Target, topic: str, tmp_path: Path) -> None:
    """If this fails, GetOffsetShell or kafka-delete-records works with wrong offsets."""
    create_topic(broker.bootstrap, topic, 2)
    send(broker, topic, [b"%d" % number for number in range(7)], 1)
    plan = tmp_path / "delete.json"
    plan.write_text(json.dumps({"partitions": [{"topic": topic, "partition": 1, "offset": 3}], "version": 1}))
    done = tool(broker, "DeleteRecordsCommand", "--offset-json-file", str(plan))
    assert f"partition: {topic}-1\tlow_watermark: 3" in done
    shown = tool(broker, "GetOffsetShell", "--topic-partitions", f"{topic}:0-2")
    assert shown.split() == [f"{topic}:0:0", f"{topic}:1:7"]
    shown = tool(broker, "GetOffsetShell", "--topic", topic, "--time", "earliest")
    assert shown.split() == [f"{topic}:0:0", f"{topic}:1:3"]


def test_log_directories(broker: Target, topic: str) -> None:
    """If this fails, kafka-log-dirs shows wrong sizes or directories."""
    create_topic(broker.bootstrap, topic)
    send(broker, topic, [b"x" * 1000])
    shown = tool(broker, "LogDirsCommand", "--describe", "--topic-list", topic)
    answer = json.loads(next(line for line in shown.splitlines() if line.startswith("{")))
    (directory,) = answer["brokers"][0]["logDirs"]
    assert directory["logDir"] == str(broker.data_dir)
    size = (broker.data_dir / f"{topic}-0" / f"{0:020}.log").stat().st_size
    assert directory["partitions"] == [{"partition": f"{topic}-0", "size": size, "offsetLag": 0, "isFuture": False}]


def test_versions_and_features(broker: Target) -> None:
    """If this fails, Kafka's own tools cannot read the broker's versions and features."""
    shown = tool(broker, "BrokerApiVersionsCommand")
    assert shown.startswith(broker.bootstrap)
    ranges = {name: words(rest)[0:3] for name, rest in re.findall(r"\t(\w+)\(\d+\): (.*)", shown)}
    with Connection((broker.host, broker.port)) as connection:
        reader = connection.ask(API_VERSIONS, 0, b"")
        assert reader.i16() == 0
        advertised = sum(1 for _ in range(reader.i32()) if reader.take(6))
    assert ranges["Produce"] == ["0", "to", "13"]
    assert ranges["Fetch"] == ["4", "to", "18"]
    assert len([rest for rest in ranges.values() if rest[0] != "UNSUPPORTED"]) >= advertised - 1
    features = tool(broker, "FeatureCommand", "describe")
    assert re.search(r"metadata.version\s+SupportedMinVersion: \S+\s+SupportedMaxVersion: 4.3-IV0", features)


def test_dump_of_what_the_broker_wrote(make_broker: Callable[..., Target], topic: str) -> None:
    """If this fails, Kafka's DumpLogSegments finds a fault in our files, or reads other records from them."""
    broker = make_broker()
    create_topic(broker.bootstrap, topic, 1, {"segment.bytes": "1048576", "index.interval.bytes": "1000"})
    noise = random.Random(1)
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        settings: dict[str, Any] = {"compression.type": codec, "enable.idempotence": True, "batch.num.messages": 20}
        send(
            broker, topic, [f"{codec}-{number}-".encode() + noise.randbytes(2000) for number in range(300)], **settings
        )
    assert len(read_all(broker.bootstrap, topic)) == 1500
    broker.stop()  # a stop trims the indexes of the newest segment
    directory = broker.data_dir / f"{topic}-0"
    logs = sorted(directory.glob("*.log"))
    assert len(logs) >= 2
    dumped = dump_log_segments(logs, "--deep-iteration", "--print-data-log")
    assert [line.count("payload:") for line in dumped.splitlines() if "payload:" in line].count(1) == 1500
    assert dumped.count("isvalid: true") == len(re.findall(r"^baseOffset: ", dumped, re.MULTILINE)) > 10
    indexes = sorted(directory.glob("*.index")) + sorted(directory.glob("*.timeindex"))
    checked = dump_log_segments(indexes, "--index-sanity-check")
    assert checked.count("passed sanity check") == len(indexes)
    dump_log_segments(indexes, "--verify-index-only")
    snapshots = sorted(directory.glob("*.snapshot"))
    assert snapshots, "a roll leaves a snapshot of the producers"
    assert "producerId: " in dump_log_segments(snapshots)


def test_dump_of_internal_topics(broker: Target, topic: str, group: str) -> None:
    """If this fails, Kafka cannot read our offsets or our metadata log."""
    create_topic(broker.bootstrap, topic)
    consumer = new_consumer(broker.bootstrap, group)
    consumer.commit(offsets=[TopicPartition(topic, 0, 3, metadata="here")], asynchronous=False)
    close_consumer(consumer)
    logs = [path for path in broker.data_dir.glob("__consumer_offsets-*/*.log") if path.stat().st_size]
    dumped = dump_log_segments(logs, "--offsets-decoder")
    (line,) = [line for line in dumped.splitlines() if f'"{group}"' in line and '"offset"' in line]
    assert f'"topic":"{topic}"' in line
    assert '"offset":3' in line
    assert '"metadata":"here' in line
    metadata = sorted((broker.data_dir / "__cluster_metadata-0").glob("*.log"))
    dumped = dump_log_segments(metadata, "--cluster-metadata-decoder")
    assert re.search(rf'"type":"TOPIC_RECORD".*"name":"{re.escape(topic)}"', dumped)
    assert '"type":"PARTITION_RECORD"' in dumped


def test_quotas(broker: Target) -> None:
    """If this fails, kafka-configs does not show, set or remove quotas of users, client ids and addresses."""
    config = "kafka.admin.ConfigCommand"
    user = ["--entity-type", "users", "--entity-name", "quota-user"]
    both = [*user, "--entity-type", "clients", "--entity-default"]
    done = tool(broker, config, "--alter", *user, "--add-config", "producer_byte_rate=1024,request_percentage=12.5")
    assert "Completed updating config for user quota-user." in done
    tool(broker, config, "--alter", *both, "--add-config", "consumer_byte_rate=2048")
    shown = tool(broker, config, "--describe", *user)
    assert re.search(r"Quota configs for user-principal 'quota-user' are .*producer_byte_rate=1024", shown), shown
    assert "request_percentage=12.5" in shown
    assert "consumer_byte_rate=2048" in tool(broker, config, "--describe", *both)
    address = ["--entity-type", "ips", "--entity-name", "10.1.2.3"]
    tool(broker, config, "--alter", *address, "--add-config", "connection_creation_rate=7")
    assert "connection_creation_rate=7" in tool(broker, config, "--describe", *address)
    wrong = tool(broker, config, "--alter", *user, "--add-config", "connection_creation_rate=7", check=False)
    assert "Unexpected config names: Set(connection_creation_rate)" in wrong
    tool(broker, config, "--alter", *user, "--delete-config", "producer_byte_rate,request_percentage")
    tool(broker, config, "--alter", *both, "--delete-config", "consumer_byte_rate")
    tool(broker, config, "--alter", *address, "--delete-config", "connection_creation_rate")
    assert "byte_rate" not in tool(broker, config, "--describe", *user)
    assert "connection_creation_rate" not in tool(broker, config, "--describe", *address)
