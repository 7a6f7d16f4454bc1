"""The measurements of the mirror: their parts run, and fill the recorded table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.launch import mirrors
from bench.record import plan as plans
from bench.studies import mirror

# Two brokers and the mirrors start for each part.
pytestmark = pytest.mark.full
SMALL = ["--pairs", "1", "--megabytes", "8", "--rate", "1000", "--seconds", "1"]


def test_every_part_is_measured(tmp_path: Path) -> None:
    """If this fails, the recorded table has rows without figures, or a measurement ends with an exception."""
    path = tmp_path / "mirror.json"
    assert mirror.main(["--on", "ours", *SMALL, "--json-file", str(path)]) == 0
    found = json.loads(path.read_text())
    (table,) = [each for each in plans.load().tables if each.name == "mirror"]
    assert {row.metric for row in table.rows if row.metric.startswith("ours_")} <= found.keys()
    assert found["ours_lag_p99_ms"][0] >= found["ours_lag_p50_ms"][0] > 0


@pytest.mark.skipif(mirrors.missing() is not None, reason=mirrors.missing() or "")
def test_the_peer_is_measured(tmp_path: Path) -> None:
    """If this fails, the recorded table has nothing to compare with."""
    path = tmp_path / "mirror.json"
    assert mirror.main([*SMALL, "--json-file", str(path)]) == 0
    found = json.loads(path.read_text())
    (table,) = [each for each in plans.load().tables if each.name == "mirror"]
    assert {row.metric for row in table.rows} <= found.keys()
    assert found["cpu_per_gb_s_ratio"][0] > 0
