"""Every test runs once, on a worker that has collected it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support import scheduling
from tests.support.scheduling import ROOT, GroupScheduling, is_of_one_worker, shares

SHARED = ["tests/e2e/test_a.py::one", "tests/e2e/test_a.py::two", "tests/sim/test_world.py::t[1]"]


class Worker:
    """A worker that runs what it is sent when the test says so."""

    def __init__(self, name: str, collection: list[str]) -> None:
        self.name = name
        self.collection = collection
        self.sent: list[int] = []
        self.shutting_down = False

    def send_runtest_some(self, places: list[int]) -> None:
        self.sent += places

    def shutdown(self) -> None:
        self.shutting_down = True


@pytest.fixture
def scheduler(pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch) -> GroupScheduling:
    """A scheduler of two workers."""
    monkeypatch.setattr("xdist.scheduler.loadscope.parse_tx_spec_config", lambda _: ["popen", "popen"])
    # The scheduler sets the number of tests of the session.
    reporter: Any = pytestconfig.pluginmanager.getplugin("terminalreporter")
    if reporter is not None:
        monkeypatch.setattr(reporter._session, "testscollected", 0)
    return GroupScheduling(pytestconfig, None)


def run(scheduler: GroupScheduling, workers: list[Worker], *, until: int | None = None) -> list[tuple[str, str]]:
    """Let the workers run one test in turn, at most `until`; return the names of workers with their tests."""
    found: list[tuple[str, str]] = []
    while any(worker.sent for worker in workers):
        for worker in workers:
            if worker.sent and (until is None or len(found) < until):
                place = worker.sent.pop(0)
                found.append((worker.name, worker.collection[place]))
                scheduler.mark_test_complete(worker, place)
        if until is not None and len(found) >= until:
            break
    return found


def start(scheduler: GroupScheduling, workers: list[Worker]) -> None:
    for worker in workers:
        scheduler.add_node(worker)
        scheduler.add_node_collection(worker, worker.collection)
    scheduler.schedule()


def test_workers_run_their_share_and_divide_the_rest(scheduler: GroupScheduling) -> None:
    """If this fails, a test that one worker has collected never runs, or one that all have collected runs twice."""
    first = Worker("first", [*SHARED[:2], "tests/broker_cy/test_x.py::t", SHARED[2]])
    second = Worker("second", [SHARED[2], *SHARED[:2], *(f"tests/broker_cy/test_y.py::t{n}" for n in range(9))])
    start(scheduler, [first, second])
    found = run(scheduler, [first, second])
    assert sorted(test for _, test in found) == sorted({*first.collection, *second.collection})
    assert {name for name, test in found if "test_x" in test} == {"first"}
    assert {name for name, test in found if "test_y" in test} == {"second"}
    assert first.shutting_down
    assert second.shutting_down
    assert scheduler.tests_finished


def test_another_worker_goes_on_for_one_that_has_crashed(scheduler: GroupScheduling) -> None:
    """If this fails, the tests of a worker that has crashed never run, and `make test` waits for them."""
    first = Worker("first", ["tests/broker_cy/test_x.py::t1", "tests/broker_cy/test_x.py::t2", SHARED[2]])
    second = Worker("second", [*SHARED[:2], SHARED[2]])
    start(scheduler, [first, second])
    done = run(scheduler, [first, second], until=1)
    assert scheduler.remove_node(first) == first.collection[1]
    instead = Worker("instead", sorted({*first.collection, *second.collection}))
    scheduler.add_node(instead)
    scheduler.add_node_collection(instead, instead.collection)
    scheduler.schedule()
    done += run(scheduler, [second, instead])
    assert {test for _, test in done} == {*instead.collection}
    assert scheduler.tests_finished


def test_each_file_of_one_worker_is_in_one_share() -> None:
    """If this fails, no worker collects some file, so that its tests pass unseen."""
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    expected = [path for path in files if is_of_one_worker(path)]
    assert 300 < len(expected) < len(files)
    found = shares(5)
    assert sorted(path for share in found for path in share) == expected
    sizes = [sum(path.stat().st_size for path in share) for share in found]
    assert max(sizes) < 1.1 * min(sizes)
    assert not any(is_of_one_worker(ROOT / name) for name in (*scheduling.KAFKA, *scheduling.SPREAD))
