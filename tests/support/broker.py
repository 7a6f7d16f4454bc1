"""Our broker as a process, and the selection of the broker that the compatibility tests run against.

BROKER_CY_TEST_TARGET=kafka runs them against Apache Kafka 4.3.1 instead, to check the tests themselves.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from bench.launch.nodes import BrokerCy
from tests.support.forking import Forking
from tests.support.kafka_peer import KafkaPeer

# Settings that make tests fast; all other settings have the broker's defaults.
QUICK = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
}


def target_is_kafka() -> bool:
    """Whether the broker under test is Apache Kafka."""
    target = os.environ.get("BROKER_CY_TEST_TARGET", "broker-cy")
    if target not in ("broker-cy", "kafka"):
        raise AssertionError(f"BROKER_CY_TEST_TARGET={target!r}: allowed are broker-cy (the default) and kafka")
    return target == "kafka"


class Target(Protocol):
    """The interface of the broker that a test runs against."""

    target: str
    host: str
    port: int
    data_dir: Path

    @property
    def bootstrap(self) -> str: ...
    @property
    def pid(self) -> int: ...
    def start(self) -> Target: ...
    def stop(self, timeout_s: float = ...) -> int: ...
    def kill(self) -> None: ...
    def restart(self) -> Target: ...
    def close(self) -> None: ...
    def stdout(self) -> str: ...
    def stderr(self) -> str: ...


class BrokerProcess(Forking, BrokerCy):
    """See bench.launch.nodes.Node."""

    target = "broker-cy"


def new_target(
    directory: Path, settings: Mapping[str, str] | None = None, data_dir: Path | None = None
) -> BrokerProcess | KafkaPeer:
    """A broker under test, not yet started, with the settings that make tests fast."""
    kind = KafkaPeer if target_is_kafka() else BrokerProcess
    return kind(directory, {**QUICK, **(settings or {})}, data_dir)
