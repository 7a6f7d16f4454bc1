"""Kafka's own tools print the same on three nodes of broker-cy as on three nodes of Kafka.

tests/fixtures/kafka-4.3.1/tools_cluster.txt is their output with Kafka 4.3.1, in the order of `session`; `python -m
tests.compat.test_kafka_tools_cluster` records it.
"""

from __future__ import annotations

import difflib
import re
import tempfile
from pathlib import Path

import pytest

from tests.support import needs
from tests.support.cluster import cluster
from tests.support.kafka_cluster import kafka_cluster
from tests.support.tool_session import Nodes, ToolSession, properties
from tests.support.wait import until

pytestmark = needs.kafka
RECORDED = Path(__file__).resolve().parents[1] / "fixtures" / "kafka-4.3.1" / "tools_cluster.txt"
ASSIGNED = "1:2:3,2:3:1"


def session(nodes: Nodes, directory: Path) -> str:
    """Do all parts; returns the transcript."""
    directory.mkdir(parents=True, exist_ok=True)
    it = ToolSession(nodes, directory)
    # New Kafka clusters have this feature, and then each topic shows the cluster's min.insync.replicas.
    it.run("kafka-features.sh", "upgrade", "--feature", "eligible.leader.replicas.version=1")
    it.transcript = ""
    for part in PARTS:
        it.transcript += f"# {part.__name__}\n\n"
        part(it)
    return it.transcript


def topics(it: ToolSession) -> None:
    it.run("kafka-topics.sh", "--create", "--topic", "a", "--replica-assignment", ASSIGNED)
    it.run("kafka-topics.sh", "--create", "--topic", "a", "--partitions", "1")
    it.run("kafka-topics.sh", "--create", "--topic", "b", "--partitions", "1", "--replication-factor", "4")
    it.run("kafka-topics.sh", "--create", "--topic", "b", "--replica-assignment", "1:9")
    it.run(
        "kafka-topics.sh", "--alter", "--topic", "a", "--partitions", "3", "--replica-assignment", f"{ASSIGNED},3:1:2"
    )
    it.run("kafka-topics.sh", "--alter", "--topic", "a", "--partitions", "2")
    it.run("kafka-topics.sh", "--describe", "--topic", "a", at=2)
    it.run("kafka-topics.sh", "--describe", "--under-min-isr-partitions", at=3)
    it.run("kafka-topics.sh", "--describe", "--topic", "nothing")


def configs(it: ToolSession) -> None:
    topic = ("--entity-type", "topics", "--entity-name", "a")
    broker = ("--entity-type", "brokers", "--entity-name", "2")
    every = ("--entity-type", "brokers", "--entity-default")
    it.run("kafka-configs.sh", "--alter", *topic, "--add-config", "min.insync.replicas=2,retention.ms=86400000")
    it.run("kafka-configs.sh", "--describe", *topic, at=2)
    it.run("kafka-configs.sh", "--alter", *topic, "--add-config", "min.insync.replicas=-1")
    it.run("kafka-configs.sh", "--alter", *topic, "--delete-config", "retention.ms", at=3)
    it.run("kafka-configs.sh", "--alter", *broker, "--add-config", "log.cleaner.threads=2")
    it.run("kafka-configs.sh", "--alter", *every, "--add-config", "log.retention.ms=7200000")
    it.run("kafka-configs.sh", "--describe", *broker, at=3)
    it.run("kafka-configs.sh", "--describe", *every, at=2)
    it.run("kafka-configs.sh", "--alter", *broker, "--add-config", "node.id=7")
    it.run("kafka-configs.sh", "--alter", *broker, "--delete-config", "log.cleaner.threads")
    it.run("kafka-configs.sh", "--alter", *every, "--delete-config", "log.retention.ms")


def reassignments(it: ToolSession) -> None:
    def moves(*replicas: int) -> str:
        one = {"topic": "a", "partition": 0, "replicas": list(replicas), "log_dirs": ["any"] * len(replicas)}
        return it.json_file("moves.json", {"version": 1, "partitions": [one]})

    tool = "kafka-reassign-partitions.sh"
    it.run(tool, "--execute", "--reassignment-json-file", moves(2, 3))
    # The duration of the reassignment does not count as a difference.
    transcript = it.transcript
    until(lambda: "is completed" in it.run(tool, "--verify", "--reassignment-json-file", moves(2, 3)), "the move", 60)
    it.transcript = transcript
    it.run(tool, "--verify", "--reassignment-json-file", moves(2, 3))
    it.run(tool, "--list", at=2)
    it.run(tool, "--cancel", "--reassignment-json-file", moves(2, 3))
    it.run(tool, "--execute", "--reassignment-json-file", moves(1, 9))
    asked = it.json_file("topics.json", {"version": 1, "topics": [{"topic": "a"}]})
    # Too few brokers: with enough of them, the tool's proposal is random.
    it.run(tool, "--generate", "--topics-to-move-json-file", asked, "--broker-list", "1,3")
    it.run(tool, "--execute", "--reassignment-json-file", moves(1, 2, 3))
    transcript = it.transcript
    until(
        lambda: "is completed" in it.run(tool, "--verify", "--reassignment-json-file", moves(1, 2, 3)), "the move", 60
    )
    it.transcript = transcript
    it.run("kafka-leader-election.sh", "--election-type", "preferred", "--topic", "a", "--partition", "0")
    it.run("kafka-leader-election.sh", "--election-type", "preferred", "--topic", "a", "--partition", "0", at=2)
    it.run("kafka-leader-election.sh", "--election-type", "unclean", "--topic", "a", "--partition", "1")
    it.run("kafka-leader-election.sh", "--election-type", "preferred", "--topic", "nothing", "--partition", "0")
    it.run("kafka-topics.sh", "--describe", "--topic", "a")


def the_cluster(it: ToolSession) -> None:
    it.run("kafka-cluster.sh", "cluster-id")
    it.run("kafka-cluster.sh", "list-endpoints", at=2)
    it.run("kafka-cluster.sh", "unregister", "--id", "9")
    status = it.run("kafka-metadata-quorum.sh", "describe", "--status")
    it.transcript = it.transcript.replace(status, re.sub(r"\d+$", "N", status, flags=re.MULTILINE))
    shown = it.run("kafka-metadata-quorum.sh", "describe", "--replication", at=3)
    it.transcript = it.transcript.replace(shown, roles(shown))
    voter = ("--controller-id", "2", "--controller-directory-id", "AAAAAAAAAAAAAAAAAAAAAQ")
    refused = it.run("kafka-metadata-quorum.sh", "remove-controller", *voter)
    # broker-cy's message adds a remedy.
    plain = re.sub(r"(?<=UnsupportedVersionException: ).*", "...", refused)
    it.transcript = it.transcript.replace(refused, plain)
    it.run("kafka-features.sh", "describe")
    it.run("kafka-features.sh", "upgrade", "--feature", "transaction.version=9")
    it.run("kafka-features.sh", "downgrade", "--feature", "transaction.version=1")
    it.run("kafka-features.sh", "upgrade", "--feature", "transaction.version=2", at=2)
    it.run("kafka-features.sh", "upgrade", "--feature", "transaction.version=1")
    it.run("kafka-features.sh", "downgrade", "--feature", "no.such=1")
    it.run("kafka-log-dirs.sh", "--describe", "--topic-list", "a")
    it.run("kafka-log-dirs.sh", "--describe", "--topic-list", "a", "--broker-list", "2,9")


def roles(shown: str) -> str:
    """The nodes and the roles of `describe --replication`, each sorted."""
    rows = [line.split() for line in shown.splitlines() if line.strip()]
    return f"{sorted(row[0] for row in rows)}\n{sorted(row[-1] for row in rows)}\n"


def storage(it: ToolSession) -> None:
    file = properties(it.nodes[0])
    it.run("kafka-storage.sh", "info", "-c", file, option="")
    it.run("kafka-storage.sh", "format", "-c", file, "-t", "vPeWCWqNQ0eGGvvK5wD1kg", option="")
    it.run("kafka-storage.sh", "format", "-c", file, "-t", "vPeWCWqNQ0eGGvvK5wD1kg", "--ignore-formatted", option="")


def feature_levels(it: ToolSession) -> None:
    tool = "kafka-features.sh"
    level = ("--feature", "transaction.version=1")
    it.run(tool, "downgrade", *level, "--dry-run")
    it.run(tool, "downgrade", *level, at=2)
    it.run(tool, "upgrade", *level)
    it.run(tool, "downgrade", "--feature", "transaction.version=2", at=3)
    it.run(tool, "disable", "--feature", "transaction.version", "--unsafe")
    it.run(tool, "upgrade", "--feature", "transaction.version=2")
    it.run(tool, "upgrade", "--feature", "transaction.version=1")
    it.run(tool, "upgrade", "--feature", "transaction.version=3")
    it.run(tool, "disable", "--feature", "kraft.version")
    it.run(tool, "downgrade", "--feature", "metadata.version=29")
    it.run(tool, "downgrade", "--metadata", "4.0", "--unsafe", at=2)
    it.run(tool, "upgrade", "--feature", "metadata.version=31")
    it.run(tool, "upgrade", "--feature", "metadata.version=30")
    it.run(tool, "disable", "--feature", "metadata.version")
    it.run(tool, "upgrade", "--feature", "nothing=1")
    it.run(tool, "upgrade")
    it.run(tool, "downgrade", "--feature", "eligible.leader.replicas.version=0", "--feature", "nothing=0")
    it.run(tool, "describe", at=3)


def lost_broker(it: ToolSession) -> None:
    """Node 1 dies and comes back."""
    it.nodes[0].kill()

    def leaders(at: int) -> list[str]:
        transcript = it.transcript
        found = re.findall(r"Leader: (\S+)", it.run("kafka-topics.sh", "--describe", "--topic", "a", at=at))
        it.transcript = transcript
        return found

    until(lambda: "1" not in leaders(2), "other leaders", 60, 0.2)
    it.run("kafka-topics.sh", "--describe", "--topic", "a", "--under-replicated-partitions", at=2)
    it.run("kafka-topics.sh", "--describe", "--topic", "a", "--unavailable-partitions", at=2)
    it.run("kafka-cluster.sh", "list-endpoints", at=3)
    it.run("kafka-cluster.sh", "list-endpoints", "--include-fenced-brokers", at=3)
    it.run("kafka-leader-election.sh", "--election-type", "preferred", "--topic", "a", "--partition", "0", at=2)
    it.nodes[0].restart()

    def in_sync() -> bool:
        transcript = it.transcript
        behind = it.run("kafka-topics.sh", "--describe", "--topic", "a", "--under-replicated-partitions", at=2)
        it.transcript = transcript
        return not behind

    until(in_sync, "all in sync", 60, 0.2)
    it.run("kafka-leader-election.sh", "--election-type", "preferred", "--all-topic-partitions", at=2)
    it.run("kafka-topics.sh", "--describe", "--topic", "a", at=3)
    it.run("kafka-topics.sh", "--delete", "--topic", "a", at=3)


SETTINGS = {"offsets.topic.num.partitions": "4", "broker.session.timeout.ms": "9000"}
# Kafka has no topics for its own metrics and events; their leaders would be elected with all others.
OURS = SETTINGS | {"brokercy.metrics.sample.interval.ms": "0", "brokercy.events.enable": "false"}
PARTS = (topics, configs, reassignments, the_cluster, storage, lost_broker, feature_levels)


@pytest.mark.timeout(600)
def test_the_tools_print_what_they_print_with_kafka(tmp_path: Path) -> None:
    """If this fails, an operator's script that parses the output of Kafka's tools does not work with a broker-cy
    cluster.
    """
    with cluster(tmp_path, settings=OURS) as nodes:
        assert not (found := different(session(nodes, tmp_path / "files"))), "\n".join(found)


@pytest.mark.full
@pytest.mark.timeout(600)
def test_kafka_itself_prints_what_was_recorded(tmp_path: Path) -> None:
    """If this fails, our cluster is compared with output that Kafka does not print."""
    assert different(of_kafka(tmp_path)) == []


def different(printed: str) -> list[str]:
    """Return the lines that differ from the recorded ones, with their context."""
    return list(difflib.unified_diff(RECORDED.read_text().splitlines(), printed.splitlines(), "recorded", "printed"))


def of_kafka(directory: Path) -> str:
    with kafka_cluster(directory) as nodes:
        return session(nodes, directory / "files")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        printed = of_kafka(Path(place))
    RECORDED.write_text(printed)
