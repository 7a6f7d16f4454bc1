"""Which failed tests `make test` runs a second time."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tools import run_again

BESIDE_KAFKA = "tests/broker_cy/admin/test_groups.py::test_members[kafka]"


@pytest.mark.parametrize(
    ("failed", "reported"),
    [
        ([BESIDE_KAFKA], None),
        ([BESIDE_KAFKA, "tests/bench/test_modes.py::test_run"], None),
        (["tests/broker_cy/commands/test_operating_kafka.py::test_moves"], None),
        (["tests/broker_cy/commands/test_operating_ours.py::test_moves"], "is final"),
        ([BESIDE_KAFKA, "tests/broker_cy/admin/test_groups.py::test_members[ours]"], "test_members[ours] is final"),
        (["tests/history/test_workloads.py::test_kills[kafka]"], "is final"),
        (["tests/sim/test_power_cut.py::test_what_was_synced_survives_power_cuts[0]"], "is final"),
        ([BESIDE_KAFKA] * 7, "7 tests failed"),
        ([], "0 tests failed"),
    ],
)
def test_only_what_depends_on_another_program_is_run_again(failed: list[str], reported: str | None) -> None:
    """If this fails, a rare loss or race passes for a matter of timing."""
    reason = run_again.refusal(failed)
    assert reason is None if reported is None else reported in str(reason)


@pytest.mark.parametrize(("body", "expected"), [("assert True", 0), ("assert False", 1)])
def test_the_second_run_decides(tmp_path: Path, body: str, expected: int) -> None:
    """The exit code is that of the second run, and only the failed test is in it."""
    folder = tmp_path / "tests" / "bench"
    folder.mkdir(parents=True)
    (folder / "test_window.py").write_text(f"def test_a():\n    {body}\n\ndef test_b():\n    assert False\n")
    cache = tmp_path / run_again.FAILED
    cache.parent.mkdir(parents=True)
    cache.write_text(json.dumps({"tests/bench/test_window.py::test_a": True}))
    for code, wanted in ((1, expected), (2, 2), (0, 0)):
        done = subprocess.run(
            [sys.executable, run_again.__file__, str(code)], cwd=tmp_path, capture_output=True, text=True, timeout=100
        )
        assert done.returncode == wanted, done.stdout + done.stderr
        assert ("Running again, alone" in done.stdout) == (code == 1)
