"""Each defect of single_defects, planted, makes the test of its part fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sim.defects import MISFITS, Planter
from tests.sim.single_defects import DEFECTS
from tests.support.tiers import IS_FULL

TESTS = Path(__file__).resolve().parents[1] / "broker_cy"
# They belong to a whole run.
PLUGINS = ("cacheprovider", "xdist", "faulthandler", "timeout")


class Failures:
    """Keeps why tests failed."""

    def __init__(self) -> None:
        self.found: list[BaseException] = []
        self.count = 0

    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> None:
        self.count += call.when == "call"
        if call.excinfo is not None:
            self.found.append(call.excinfo.value)


def run(test: str) -> Failures:
    """Run a test in this process, with the patches of this one."""
    failures = Failures()
    options = [option for name in PLUGINS for option in ("-p", f"no:{name}")]
    pytest.main(["-qx", *options, "--rootdir", str(TESTS.parents[1]), f"{TESTS}/{test}"], plugins=[failures])
    assert failures.count, f"there is no test {test}"
    return failures


@pytest.mark.parametrize("plant", [pytest.param(plant, id=plant.__name__) for plant in DEFECTS])
def test_planted_defect_is_found(plant: Planter, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a test passes although the part that it is for has this defect."""
    # `make test` also runs each of these tests by itself.
    if IS_FULL:
        assert not run(DEFECTS[plant]).found, "it fails without the defect"
    plant(monkeypatch)
    found = run(DEFECTS[plant]).found
    assert found, f"{plant.__name__} is not found by {DEFECTS[plant]}"
    misfits = [error for error in found if isinstance(error, MISFITS)]
    assert not misfits, f"{plant.__name__} no longer fits the code: {misfits}"
