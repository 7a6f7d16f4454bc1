"""A real Apache Kafka 4.3.1 broker, as tests run it: small, and with its log at the level a developer asks for."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from bench.launch.nodes import Kafka

# Fewer partitions of the internal topics start faster; what a test sets itself goes before.
_SMALL = {"offsets.topic.num.partitions": "4", "transaction.state.log.num.partitions": "4"}


class KafkaPeer(Kafka):
    """See bench.launch.nodes.Node."""

    target = "kafka"
    log_level = os.environ.get("BROKER_CY_TEST_KAFKA_LOG", "WARN")

    def __init__(
        self, directory: Path, settings: Mapping[str, str] | None = None, data_dir: Path | None = None
    ) -> None:
        super().__init__(directory, {**_SMALL, **(settings or {})}, data_dir, ("-Xms512m", "-Xmx512m"))
