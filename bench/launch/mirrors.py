"""Mirrors between two clusters as processes: ours, and MirrorMaker 2 of Apache Kafka from Maven Central. Each runs a
file of MirrorMaker 2 for the flow A->B.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from bench.launch import kafka_dist
from bench.launch.nodes import Node
from broker_cy.launch.cache import cache_directory, made_once
from broker_cy.launch.maven import Artifact, copy_jars
from broker_cy.launch.processes import Child, ProcessError

VERSION: Final = kafka_dist.VERSION
_JARS: Final = (
    Artifact("org.apache.kafka", "connect-mirror", VERSION),
    Artifact("org.slf4j", "slf4j-nop", "1.7.36"),
)
_PLACE: Final = f"connect-mirror-{VERSION}-jars"
# Those of connect-mirror-maker.sh.
_JVM_FLAGS: Final = ("-Xms256M", "-Xmx2G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20")


def class_path() -> str:
    """Return the jars of MirrorMaker 2; the first call on a machine downloads 40 MB."""

    def copied(directory: Path) -> None:
        copy_jars(directory, _JARS)

    return f"{made_once(_PLACE, copied)}/libs/*"


def missing() -> str | None:
    """Return a sentence about what must be installed to run MirrorMaker 2 here; None if nothing is missing."""
    if shutil.which("java") is None:
        return "MirrorMaker 2 needs java (Debian: apt-get install openjdk-17-jre-headless)"
    if shutil.which("mvn") is None and not (cache_directory() / _PLACE).exists():
        return "MirrorMaker 2 is downloaded by mvn, which is not installed (Debian: apt-get install maven)"
    return None


class MirrorNode(Node):
    """A mirror of the topics that match `topics`, from the cluster at `source` to that at `target`."""

    def __init__(self, directory: Path, source: str, target: str, topics: str) -> None:
        super().__init__(directory)
        directory.mkdir(parents=True, exist_ok=True)
        self.file = directory / "mm2.properties"
        self.clusters, self.topics = (source, target), topics

    def properties(self) -> Mapping[str, str]:
        """Return the file: that of Kafka's distribution, for brokers that are alone in their cluster."""
        source, target = self.clusters
        factors = ("replication", "checkpoints.topic.replication", "heartbeats.topic.replication")
        more = ("offset-syncs.topic.replication", "offset.storage.replication", "status.storage.replication")
        return {
            "clusters": "A, B",
            "A.bootstrap.servers": source,
            "B.bootstrap.servers": target,
            "A->B.enabled": "true",
            "A->B.topics": self.topics,
            "refresh.topics.interval.seconds": "1",
            **{f"{name}.factor": "1" for name in (*factors, *more, "config.storage.replication")},
        }

    def prepare(self) -> None:
        self.file.write_text("".join(f"{name}={value}\n" for name, value in self.properties().items()))

    def ready(self, child: Child) -> bool:
        """Return whether it was started: it copies when it has found the topics, which its user waits for."""
        return child.returncode is None


class BrokerMirror(MirrorNode):
    """`broker-mirror`, as installed for this interpreter."""

    name = "broker-mirror"

    def command(self) -> Sequence[str | Path]:
        installed = Path(sys.executable).parent / self.name
        start = [str(installed)] if installed.exists() else [sys.executable, "-m", "broker_mirror"]
        return [*start, "start", self.file]


class MirrorMaker(MirrorNode):
    """MirrorMaker 2, with a producer that fills batches of 1 MB: with its default of 16 KB it would be slower."""

    name = "mirror-maker"

    def prepare(self) -> None:
        if (sentence := missing()) is not None:
            raise ProcessError(sentence)
        super().prepare()

    def properties(self) -> Mapping[str, str]:
        return {**super().properties(), "B.producer.batch.size": "1000000", "A.consumer.max.poll.records": "2000"}

    def command(self) -> Sequence[str | Path]:
        return ["java", *_JVM_FLAGS, "-cp", class_path(), "org.apache.kafka.connect.mirror.MirrorMaker", self.file]
