"""The order of tests, and which of them share a worker of pytest-xdist (`--dist loadgroup`).

The tests of a file run on one worker, so that its fixtures are set up once. Exceptions are the files of SPREAD, whose
tests are long and independent, and tests with an `xdist_group` mark, which share a worker with their group. Whatever
takes longest begins first: a file that begins last would run alone on one core.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from xdist.scheduler import LoadScopeScheduling

if TYPE_CHECKING:
    import pytest

SPREAD: Final = ("tests/fuzz/test_fuzz.py", "tests/sim/test_world.py", "tests/sim/test_quorum_simulation.py")
# In this order; other files follow in the order of their names.
FIRST: Final = (
    "tests/spark_analytics/",
    "tests/dashboard/browser/",
    "tests/bench/",
    "tests/compat/",
    "tests/e2e/",
    *SPREAD,
    "tests/sim/",
    "tests/admin_tui/",
)


def place(nodeid: str) -> int:
    """Return the rank of a test: tests with a smaller one run earlier."""
    return next((rank for rank, prefix in enumerate(FIRST) if nodeid.startswith(prefix)), len(FIRST))


def scope(nodeid: str) -> str:
    """Return the name that the tests of one worker have in common."""
    # xdist puts the name of a group behind the id of each of its tests.
    test, _, group = nodeid.rpartition("@")
    if test and "::" not in group and "]" not in group:
        return group
    file = nodeid.partition("::")[0]
    return nodeid if file in SPREAD else file


class GroupScheduling(LoadScopeScheduling):  # type: ignore[misc]
    """Hands out whole groups, in the order of the collection."""

    def _split_scope(self, nodeid: str) -> str:
        return scope(nodeid)


class Scheduling:
    """The plugin."""

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items.sort(key=lambda item: place(item.nodeid))

    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: object) -> GroupScheduling:
        config.option.loadscopereorder = False
        return GroupScheduling(config, log)
