"""A real Apache Kafka 4.3.1 broker with small settings for tests, and a log level that a developer can select."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from bench.launch import kafka_dist
from bench.launch.nodes import Kafka
from broker_cy.launch.cache import made_once
from broker_cy.launch.processes import Child
from tests.support import kafka_tools
from tests.support.raw_wire import METADATA, Connection, array

# Fewer partitions of the internal topics start faster; a test's own settings take precedence.
_SMALL = {"offsets.topic.num.partitions": "4", "transaction.state.log.num.partitions": "4"}
# A node runs for seconds: optimizing its code costs more than it saves.
_SHORT_LIFE = "-XX:TieredStopAtLevel=1"


@cache
def _archive() -> Path:
    """The classes of a node as the JVM maps them, written once on a machine: with it, a start costs half the CPU time.
    An incompatible JVM ignores it.
    """
    return made_once(f"kafka-node-{kafka_dist.VERSION}", _write_archive) / "classes.jsa"


def _write_archive(directory: Path) -> None:
    with tempfile.TemporaryDirectory() as place:
        node = Kafka(Path(place), _SMALL, None, (_SHORT_LIFE, f"-XX:ArchiveClassesAtExit={directory}/classes.jsa"))
        try:
            node.start()
            node.stop()
        finally:
            node.close()


class QuickKafka(Kafka):
    """A node that starts with little CPU time; its highest rate is lower."""

    run_tool = staticmethod(kafka_tools.run_tool)

    def command(self) -> Sequence[str | Path]:
        program, *rest = super().command()
        return [program, _SHORT_LIFE, f"-XX:SharedArchiveFile={_archive()}", *rest]


class KafkaPeer(QuickKafka):
    """See bench.launch.nodes.Node."""

    target = "kafka"
    log_level = os.environ.get("BROKER_CY_TEST_KAFKA_LOG", "WARN")

    def __init__(
        self, directory: Path, settings: Mapping[str, str] | None = None, data_dir: Path | None = None
    ) -> None:
        super().__init__(directory, {**_SMALL, **(settings or {})}, data_dir, ("-Xms512m", "-Xmx512m"))

    def ready(self, child: Child) -> bool:
        """Return whether Kafka answers and its metadata contains the broker: at first, it answers without having the
        broker in service, and without leaders.
        """
        if not super().ready(child):
            return False
        try:
            with Connection((self.host, self.port)) as connection:
                return connection.ask(METADATA, 1, array([])).i32() > 0
        except (OSError, EOFError):
            return False


@contextmanager
def kafka_on(data: Path, directory: Path, settings: Mapping[str, str] | None = None) -> Iterator[KafkaPeer]:
    """Kafka on the data directory of a broker that has stopped. Its own files are in `directory`; it has to stop
    cleanly.
    """
    peer = KafkaPeer(directory, settings, data_dir=data)
    try:
        peer.start()
        yield peer
        assert peer.stop() == 0
    finally:
        peer.close()
