"""The benchmark of the admin core's lag, on a small scale."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from broker_cy.launch.processes import run


def test_the_benchmark_prints_its_figure(tmp_path: Path) -> None:
    """If this fails, the promised figure of lag can no longer be measured."""
    out = tmp_path / "lag.json"
    shape = ["--groups", "6", "--partitions", "3", "--topics", "2", "--repeats", "1", "--time"]
    done = run(
        [sys.executable, "-m", "bench.studies.lag", *shape, "--json-file", out], cwd=Path(__file__).resolve().parents[3]
    )
    assert b"lag of 6 groups x 3 partitions" in done.stdout
    assert set(json.loads(out.read_text())) == {
        "lag_s",
        "loop_held_s",
        "judge_s",
        "time_by_events_s",
        "time_by_records_s",
    }
