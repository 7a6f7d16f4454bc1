"""What Apache Kafka 4.3.1 answered, in tests/fixtures/kafka-4.3.1/answers: tests compare ours with it without a JVM.

A test that is marked `full` asks a Kafka again, and fails if its answers are not the recorded ones. With
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
    """Return answers as JSON has them: tuples are lists."""
    return json.loads(json.dumps(answers))


def of_kafka(name: str) -> Any:
    """Return the answers that were recorded under this name."""
    return json.loads(gzip.decompress(_file(name).read_bytes()))


def check(name: str, answers: Any) -> None:
    """Compare what Kafka answers now with the recording, or write it. Raises AssertionError if it differs."""
    found = as_recorded(answers)
    if os.environ.get("BROKER_CY_TEST_RECORD") == "1":
        _DIRECTORY.mkdir(exist_ok=True)
        # The same answers have the same bytes.
        _file(name).write_bytes(gzip.compress(json.dumps(found, indent=1).encode(), 9, mtime=0))
    assert of_kafka(name) == found, f"record {name} again: set BROKER_CY_TEST_RECORD=1"


def _file(name: str) -> Path:
    return _DIRECTORY / f"{name}.json.gz"
