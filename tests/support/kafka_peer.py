"""A real Apache Kafka 4.3.1 broker with the settings of tests: small, with the log level that a developer selects."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from bench.launch.nodes import Kafka
from bench.launch.processes import Child
from tests.support.raw_wire import METADATA, Connection, array

# Fewer partitions of the internal topics start faster; a test's own settings take precedence.
_SMALL = {"offsets.topic.num.partitions": "4", "transaction.state.log.num.partitions": "4"}


class KafkaPeer(Kafka):
    """See bench.launch.nodes.Node."""

    target = "kafka"
    log_level = os.environ.get("BROKER_CY_TEST_KAFKA_LOG", "WARN")

    def __init__(
        self, directory: Path, settings: Mapping[str, str] | None = None, data_dir: Path | None = None
    ) -> None:
        super().__init__(directory, {**_SMALL, **(settings or {})}, data_dir, ("-Xms512m", "-Xmx512m"))

    def ready(self, child: Child) -> bool:
        """Return whether Kafka answers, and its metadata has the broker: for a moment, it answers without knowing that
        it is in service, and has no leaders.
        """
        if not super().ready(child):
            return False
        try:
            with Connection((self.host, self.port)) as connection:
                return connection.ask(METADATA, 1, array([])).i32() > 0
        except (OSError, EOFError):
            return False
