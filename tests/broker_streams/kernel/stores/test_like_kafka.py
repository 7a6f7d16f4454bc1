"""Our stores give the answers of Kafka Streams to random calls: results, changes that leave the cache, changelogs."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker_streams.kernel.stores.scripts import STORES, our_answer, request
from tests.support import needs, recorded
from tests.support.java_oracle import JavaOracle
from tests.support.kafka_streams import driver_libs

RECORDING = "streams_stores"


@pytest.fixture(scope="module")
def java() -> Iterator[JavaOracle]:
    home = str(needs.MEMORY) if needs.MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="store-oracle", dir=home) as directory:
        options = ("-Xmx512m", f"-Djava.io.tmpdir={directory}")
        with JavaOracle(Path(__file__).with_name("StoreOracle.java"), driver_libs(), (), options) as running:
            yield running


@pytest.mark.parametrize("name", STORES)
def test_answers_are_those_of_kafka(name: str) -> None:
    """If this fails, a store shows, orders, drops or logs rows in another way than Kafka Streams."""
    theirs = recorded.of_kafka(RECORDING)[name]["batches"]
    ours = recorded.as_recorded(our_answer(request(name)))["batches"]
    for number, (asked, batch, expected) in enumerate(zip(request(name)["batches"], ours, theirs, strict=True)):
        for call, result, wanted in zip(asked, batch["results"], expected["results"], strict=True):
            assert result == wanted, f"batch {number}, {call}"
        assert batch["flushed"] == expected["flushed"], f"batch {number}"
        assert batch["log"] == expected["log"], f"batch {number}"


@needs.java
@pytest.mark.full
def test_kafka_answers_as_recorded(java: JavaOracle) -> None:
    """If this fails, the recording is not of Kafka Streams 4.3.1, and our equal results are wrong."""
    recorded.check(RECORDING, {name: java.ask(request(name)) for name in STORES})
