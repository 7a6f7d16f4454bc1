"""The class path of Kafka Streams 4.3.1, downloaded once."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from bench.launch import kafka_dist
from broker_cy.launch.cache import made_once
from broker_cy.launch.maven import Artifact, copy_jars

# RocksDB is 60 MB of native libraries, and not used.
STREAMS = Artifact("org.apache.kafka", "kafka-streams", kafka_dist.VERSION, (("org.rocksdb", "rocksdbjni"),))
ROCKSDB = Artifact("org.rocksdb", "rocksdbjni", "10.1.3")
TEST_UTILS = Artifact("org.apache.kafka", "kafka-streams-test-utils", kafka_dist.VERSION)


@cache
def streams_libs() -> str:
    """Return the class path of Kafka Streams; the first call on a machine downloads it."""
    return f"{made_once(f'kafka-streams-{kafka_dist.VERSION}', _fetch) / 'libs'}/*"


@cache
def driver_libs() -> str:
    """Return the class path of Kafka Streams and its TopologyTestDriver; the first call on a machine downloads it."""
    return f"{made_once(f'kafka-streams-test-utils-{kafka_dist.VERSION}', _fetch_test_utils) / 'libs'}/*"


def _fetch_test_utils(directory: Path) -> None:
    copy_jars(directory, (TEST_UTILS,))


def _fetch(directory: Path) -> None:
    copy_jars(directory, (STREAMS, ROCKSDB))
