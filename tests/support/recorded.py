"""Recorded responses of Apache Kafka 4.3.1, in tests/fixtures/kafka-4.3.1/answers: tests compare ours with them without
a JVM. A test marked `full` asks a Kafka broker again, and fails if its responses differ from the recorded ones. With
BROKER_CY_TEST_RECORD=1 it writes them: do so after a change of the requests.
"""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

_DIRECTORY = Path(__file__).resolve().parents[1] / "fixtures" / "kafka-4.3.1" / "answers"


def as_recorded(answers: Any) -> Any:
    """Return responses in the form of JSON: tuples are lists."""
    return json.loads(json.dumps(answers))


def of_kafka(name: str) -> Any:
    """Return the responses that were recorded under this name."""
    return json.loads(gzip.decompress(_file(name).read_bytes()))


def check(name: str, answers: Any) -> None:
    """Compare Kafka's current responses with the recording, or write them. Raises AssertionError if they differ."""
    found = as_recorded(answers)
    keep(name, found)
    assert of_kafka(name) == found, f"record {name} again: set BROKER_CY_TEST_RECORD=1"


def keep(name: str, answers: Any) -> None:
    """Write responses that are different each time, as those with times, if BROKER_CY_TEST_RECORD is set."""
    if os.environ.get("BROKER_CY_TEST_RECORD") == "1":
        _DIRECTORY.mkdir(exist_ok=True)
        # Equal responses have equal bytes.
        _file(name).write_bytes(gzip.compress(json.dumps(as_recorded(answers), indent=1).encode(), 9, mtime=0))


def _file(name: str) -> Path:
    return _DIRECTORY / f"{name}.json.gz"
