"""Each defect of single_defects, planted, makes the test of its part fail."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.sim.defects import MISFITS, Planter
from tests.sim.single_defects import DEFECTS
from tests.support.tiers import IS_FULL

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests" / "broker_cy"
# They belong to a whole run.
PLUGINS = ("cacheprovider", "xdist", "faulthandler", "timeout")
Found = Mapping[Planter, list[BaseException]]


class Planted:
    """Plants the defect of each test while it runs, and keeps why tests failed."""

    def __init__(self, defects: Mapping[str, Planter], *, plants: bool) -> None:
        self.defects = defects
        self.found: dict[Planter, list[BaseException]] = {plant: [] for plant in defects.values()}
        self.ran: set[str] = set()
        self._plants = plants
        self._patch = pytest.MonkeyPatch()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:
        # One failure is enough for a test with parameters.
        return True if self.found[self.defects[name_of(item)]] else None

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        self.ran.add(name_of(item))
        if self._plants:
            self.defects[name_of(item)](self._patch)

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_teardown(self) -> None:
        self._patch.undo()

    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> None:
        if call.excinfo is not None:
            self.found[self.defects[name_of(item)]].append(call.excinfo.value)


def name_of(item: pytest.Item) -> str:
    """Return the test of an item without its parameters, below tests/broker_cy."""
    return f"{item.path.relative_to(TESTS).as_posix()}::{getattr(item, 'originalname', item.name)}"


def run(plants: Iterable[Planter], *, is_planted: bool = True) -> Found:
    """Run the tests of these defects in this process, with or without the defects; return why they failed. A run of
    pytest takes longer than most of these tests, so one runs them all; defects with the same test have another run.
    """
    rounds: defaultdict[int, dict[str, Planter]] = defaultdict(dict)
    seen: Counter[str] = Counter()
    for plant in plants:
        test = DEFECTS[plant]
        rounds[seen[test]][test] = plant
        seen[test] += 1
    found: dict[Planter, list[BaseException]] = {}
    options = [option for name in PLUGINS for option in ("-p", f"no:{name}")]
    for defects in rounds.values():
        planted = Planted(defects, plants=is_planted)
        tests = [f"{TESTS}/{test}" for test in defects]
        pytest.main(["-q", "--tb=no", *options, "--rootdir", str(ROOT), *tests], plugins=[planted])
        assert planted.ran == defects.keys(), f"no such tests: {defects.keys() - planted.ran}"
        found.update(planted.found)
    return found


@pytest.fixture(scope="module")
def chosen(request: pytest.FixtureRequest) -> list[Planter]:
    """The defects whose tests are chosen in this run."""
    items = [item for item in request.session.items if isinstance(item, pytest.Function)]
    plants: list[Any] = [
        item.callspec.params["plant"] for item in items if item.function is test_planted_defect_is_found
    ]
    return plants


@pytest.fixture(scope="module")
def found(chosen: list[Planter]) -> Found:
    # `make test` also runs each of these tests by itself.
    if IS_FULL:
        failing = {plant.__name__ for plant, why in run(chosen, is_planted=False).items() if why}
        assert not failing, f"their tests fail without the defect: {failing}"
    return run(chosen)


@pytest.mark.parametrize("plant", [pytest.param(plant, id=plant.__name__) for plant in DEFECTS])
def test_planted_defect_is_found(plant: Planter, found: Found) -> None:
    """If this fails, a test passes although the part that it is for has this defect."""
    assert found[plant], f"{plant.__name__} is not found by {DEFECTS[plant]}"
    misfits = [error for error in found[plant] if isinstance(error, MISFITS)]
    assert not misfits, f"{plant.__name__} no longer fits the code: {misfits}"
