"""The time that producers with default settings wait when a node fails (`broker-bench failover`). The figures are only
printed, because on a busy machine they say nothing about the cluster. No record may fail.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import cli
from bench.launch import networks

SOAK_ROUNDS = 20


def run(directory: Path, *options: str) -> dict[str, float]:
    """Return the errors of each client for each kind of failure."""
    out = directory / "out.json"
    arguments = [
        "failover",
        "-t",
        "ours-3",
        "--clients",
        "librdkafka",
        "--json-file",
        str(out),
        "--dir",
        str(directory),
    ]
    assert cli.main([*arguments, *options]) == 0
    return {run["label"]: run["figures"]["errors"] for run in json.loads(out.read_text())["runs"]}


@pytest.mark.full
@pytest.mark.timeout(300)
def test_a_producer_goes_on_when_a_node_fails(tmp_path: Path) -> None:
    """If this fails, a producer gets an error, or waits forever, when a leader or the active controller is killed."""
    found = run(tmp_path, "--kinds", "leader,controller", "--rounds", "1")
    assert found == {"kill -9 of a leader, librdkafka": 0, "kill -9 of the active controller, librdkafka": 0}


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_a_producer_goes_on_whatever_fails(tmp_path: Path) -> None:
    """The same for each kind of failure, for the percentiles."""
    found = run(tmp_path, "--rounds", str(SOAK_ROUNDS), "--most", "5 min")
    assert len(found) == (5 if networks.missing() else 6)
    assert not any(found.values()), found
