"""Every scenario that comes with the tool, on our broker and on Apache Kafka."""

from __future__ import annotations

from pathlib import Path

import pytest

from loadgen.command import DATA_WRONG
from loadgen.scenario.toml_file import builtin_names
from tests.loadgen.run.kit import load
from tests.support.broker import Target

# Small, so that a machine that runs other tests at the same time keeps up.
SMALL = {"produce-throughput": ["--rate", "200/s", "--verify", "after"], "mixed": ["--rate", "200/s"]}


@pytest.mark.full
@pytest.mark.parametrize("name", builtin_names())
def test_a_scenario_works(either_broker: Target, name: str, tmp_path: Path) -> None:
    """If this fails, a built-in scenario reports errors of a healthy cluster, or lacks its figures."""
    options = ["--scenario", name, "--duration", "3s", "--warm-up", "0.5s", *SMALL.get(name, [])]
    run = load(tmp_path, either_broker.bootstrap, *options, "--topic", f"scenario-{name}")
    assert run.code < DATA_WRONG, run.stdout + run.stderr
    assert "Traceback" not in run.stderr
    figures = run.of.operations
    assert figures
    assert sum(each.requests for each in figures.values()) > 0
    # Group members get rebalance errors, which are not failures of the cluster.
    errors = {error for each in figures.values() for error in each.errors}
    assert errors <= {"REBALANCE_IN_PROGRESS", "UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION"}, errors
    if run.of.verification is not None:
        assert run.of.verification.is_good
