"""Our broker and Apache Kafka, for tests that must pass with both."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.support.broker import QUICK, BrokerProcess, Target
from tests.support.kafka_peer import KafkaPeer

BOTH: dict[str, type[BrokerProcess] | type[KafkaPeer]] = {"broker-cy": BrokerProcess, "kafka": KafkaPeer}


@contextlib.contextmanager
def running(kind: str, directory: Path, settings: Mapping[str, str] | None = None) -> Iterator[Target]:
    """Run a broker of this kind, with the settings that make tests fast."""
    target = BOTH[kind](directory, {**QUICK, **(settings or {})})
    try:
        yield target.start()
    finally:
        target.close()
