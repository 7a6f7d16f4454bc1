"""The summary of a test run, and the order and grouping of tests."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support import needs
from tests.support.run_summary import RunSummary, folder_of
from tests.support.scheduling import order, place, scope


def report(nodeid: str, seconds: float, skipped: str = "") -> pytest.TestReport:
    longrepr: Any = ("file.py", 1, f"Skipped: {skipped}") if skipped else None
    return pytest.TestReport(
        nodeid, ("file.py", 1, "f"), {}, "skipped" if skipped else "passed", longrepr, "call", duration=seconds
    )


def test_the_summary_has_durations_and_reasons(tmp_path: Path) -> None:
    """If this fails, skipped tests stay unnoticed, and slow ones cannot be found."""
    summary = RunSummary(tmp_path / "out" / "quick.md")
    summary.pytest_runtest_logreport(report("tests/broker_cy/wire/test_a.py::test_x", 1.5))
    summary.pytest_runtest_logreport(report("tests/broker_cy/wire/test_a.py::test_x", 0.25))
    summary.pytest_runtest_logreport(report("tests/e2e/test_b.py::test_y[1|2]", 0.5, "needs root"))
    summary.pytest_sessionfinish()
    text = (tmp_path / "out" / "quick.md").read_text()
    assert "| tests/broker_cy/wire | 1 | 1.8 |" in text
    assert "| tests/e2e | 1 | 0.5 |" in text
    assert "| all | 2 | 2.2 |" in text
    assert r"test_y[1\|2]" in text
    assert "| one process | 2.2 | " in text
    assert "- tests/e2e/test_b.py: 1 (needs root)" in text


def test_folders_have_two_levels() -> None:
    """If this fails, the summary has a line for each of hundreds of folders, or only one."""
    assert folder_of("tests/test_a.py::test_x") == "tests"
    assert folder_of("tests/broker_cy/handlers/controllers/test_a.py::test_x") == "tests/broker_cy/handlers"


@pytest.mark.parametrize(
    ("nodeid", "shared"),
    [
        ("tests/e2e/test_a.py::test_x[user@host]", "tests/e2e/test_a.py"),
        ("tests/e2e/test_a.py::test_x[user@host]@kafka", "kafka"),
        ("tests/e2e/test_a.py::test_x@kafka", "kafka"),
        ("tests/spark_analytics/jobs/test_a.py::test_x", "spark"),
        ("tests/compat/test_tls.py::test_x", "kafka"),
        ("tests/sim/test_world.py::test_x[3]", "tests/sim/test_world.py::test_x[3]"),
    ],
)
def test_tests_of_a_file_share_a_worker(nodeid: str, shared: str) -> None:
    """If this fails, each worker starts the brokers of each file again."""
    assert scope(nodeid) == shared


def test_long_tests_begin_first() -> None:
    """If this fails, the longest file runs alone at the end, while the other core is idle."""
    assert place("tests/spark_analytics/test_x.py::t") < place("tests/e2e/test_x.py::t")
    assert place("tests/e2e/test_x.py::t") < place("tests/broker_cy/wire/test_x.py::t")


@dataclass
class Item:
    nodeid: str

    @property
    def path(self) -> Path:
        return Path(self.nodeid.partition("::")[0])


def test_simulations_are_spread_among_the_others() -> None:
    """If this fails, simulations run at the same time, and the cores are idle while the other tests wait."""
    worlds = [f"tests/sim/test_world.py::t[{number}]" for number in range(10)]
    files = [f"tests/broker_cy/wire/test_{name}.py::{test}" for name in "abcdefghij" for test in ("one", "two")]
    found = [item.nodeid for item in order([Item(each) for each in [*worlds, *files]])]  # type: ignore[misc]
    assert sorted(found) == sorted([*worlds, *files])
    assert [each for each in found if each in files] == files
    assert [sum(each in worlds for each in found[at : at + 6]) for at in range(0, 30, 6)] == [2, 2, 2, 2, 2]


def test_a_missing_requirement_skips_with_its_reason() -> None:
    """If this fails, a test is skipped, and it is unknown what to install."""
    with pytest.raises(pytest.skip.Exception, match="needs a printing press"):
        needs.require(pytest.mark.skipif(True, reason="needs a printing press"))
    needs.require(pytest.mark.skipif(False, reason=""))
