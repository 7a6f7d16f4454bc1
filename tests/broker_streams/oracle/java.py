"""Kafka Streams and its TopologyTestDriver as an oracle (StreamsOracle.java)."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.broker_streams.oracle.spec import Answer, Spec
from tests.support.java_oracle import JavaOracle
from tests.support.kafka_streams import driver_libs
from tests.support.needs import MEMORY

_HERE = Path(__file__).parent
_MAIN = _HERE / "StreamsOracle.java"
AT_ONCE = 4
"""Specs in one request. Each takes 20 to 100 ms, with RocksDB; on a busy machine it may be seconds."""


@contextmanager
def kafka_streams() -> Iterator[JavaOracle]:
    """Run the oracle. Its stores and RocksDB's library of 70 MB are in a temporary directory, in memory if possible."""
    others = sorted(each for each in _HERE.glob("*.java") if each != _MAIN)
    home = str(MEMORY) if MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="streams-oracle", dir=home) as directory:
        options = ("-Xmx512m", f"-Djava.io.tmpdir={directory}")
        with JavaOracle(_MAIN, driver_libs(), others, options) as running:
            yield running


def answers(java: JavaOracle, specs: Sequence[Spec]) -> list[Answer]:
    """Return Kafka's answer to each spec."""
    found: list[Any] = []
    for begin in range(0, len(specs), AT_ONCE):
        found += java.ask({"op": "many", "specs": list(specs[begin : begin + AT_ONCE])})
    return found
