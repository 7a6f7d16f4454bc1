"""The order of tests, and their grouping on workers of pytest-xdist (`--dist loadgroup`).

The tests of a file run on one worker, so that its fixtures are set up once. Exceptions are the files of SPREAD, whose
tests are long and independent, those of KAFKA, which all run on one worker, and tests with an `xdist_group` mark, which
share a worker with their group. The files that take longest begin first: a file that begins last would run alone on one
core. Simulations, which only compute, are spread among the others, which mostly wait for programs that they started:
together they use both cores.

Each worker collects only its share of the files that are in none of these groups (`shares`), because to collect all of
them would take each worker twice as long. It runs these, and takes turns with the other workers at everything else.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from functools import cache
from operator import itemgetter
from pathlib import Path
from typing import Final

import pytest
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

ROOT: Final = Path(__file__).resolve().parents[2]
SPREAD: Final = ("tests/fuzz/test_fuzz.py", "tests/sim/test_world.py", "tests/sim/test_quorum_simulation.py")
# These share the Spark session and its JVM, also if they run a command in their own process.
SPARK: Final = "tests/spark_analytics/"
# These share the JVM of Kafka's tools (tests/support/kafka_tools.py) and one running Kafka (`live_kafka`).
KAFKA: Final = (
    "tests/broker_cy/admin/test_calls.py",
    "tests/broker_cy/admin/test_groups.py",
    "tests/broker_cy/admin/test_lag.py",
    "tests/broker_cy/admin/test_records.py",
    "tests/broker_cy/admin/test_transactions.py",
    "tests/broker_cy/commands/test_quotas.py",
    "tests/broker_cy/controller/test_like_kafka.py",
    "tests/broker_cy/quotas/test_like_kafka.py",
    "tests/broker_cy/share/test_like_kafka.py",
    "tests/broker_cy/coordinator_services/test_kafka_on_our_groups.py",
    "tests/broker_cy/server/test_kafka_on_our_metadata.py",
    "tests/broker_cy/storage_tool/test_storage_tool.py",
    "tests/broker_cy/storage/test_kafka_reads.py",
    "tests/compat/test_compaction_kafka.py",
    "tests/compat/test_delegation_tokens.py",
    "tests/compat/test_denied_answers.py",
    "tests/compat/test_kafka_quorum_tools.py",
    "tests/compat/test_kafka_tools.py",
    "tests/compat/test_kafka_tools_cluster.py",
    "tests/compat/test_kafka_transactions.py",
    "tests/compat/test_quotas.py",
    "tests/compat/test_recompression.py",
    "tests/compat/test_sasl.py",
    "tests/compat/test_stop_and_crash.py",
    "tests/compat/test_tls.py",
    "tests/compat/test_torn_tail.py",
    "tests/compat/test_transactions.py",
    "tests/support/test_kafka_tools.py",
)
# In this order; other files follow in the order of their names.
FIRST: Final = (SPARK, "tests/dashboard/browser/", "tests/bench/", "tests/compat/", "tests/e2e/", "tests/admin_tui/")
# These only compute.
COMPUTING: Final = (*SPREAD, "tests/sim/")
# The duration of a group of FIRST, compared with a group that is not in it.
WEIGHT: Final = 4
# A worker with at most so many tests gets another group.
PENDING_MAX: Final = 2


def place(nodeid: str) -> int:
    """Return the rank of a test that waits: tests with a smaller one run earlier."""
    return next((rank for rank, prefix in enumerate(FIRST) if nodeid.startswith(prefix)), len(FIRST))


def order(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Return the tests in the order in which they begin."""
    computing: dict[str, list[pytest.Item]] = {}
    waiting: dict[str, list[pytest.Item]] = {}
    for item in sorted(items, key=lambda item: place(item.nodeid)):
        groups = computing if item.nodeid.startswith(COMPUTING) else waiting
        groups.setdefault(scope(item.nodeid), []).append(item)
    files = Counter(group[0].path for group in computing.values())
    seen: Counter[Path] = Counter()
    # The start of a group, as a fraction of the whole run.
    begins: list[tuple[float, list[pytest.Item]]] = []
    for group in computing.values():
        path = group[0].path
        begins.append(((seen[path] + 0.5) / files[path], group))
        seen[path] += 1
    weights = [WEIGHT if place(group[0].nodeid) < len(FIRST) else 1 for group in waiting.values()]
    done, total = 0, sum(weights)
    for weight, group in zip(weights, waiting.values(), strict=True):
        begins.append((done / total, group))
        done += weight
    begins.sort(key=itemgetter(0))
    return [item for _, group in begins for item in group]


def scope(nodeid: str) -> str:
    """Return the name that the tests of one worker have in common."""
    # xdist appends the name of a group to the id of each of its tests.
    test, _, group = nodeid.rpartition("@")
    if test and "::" not in group and "]" not in group:
        return group
    file = nodeid.partition("::")[0]
    if file in KAFKA:
        return "kafka"
    if file.startswith(SPARK):
        return "spark"
    return nodeid if file in SPREAD else file


@cache
def shares(count: int) -> Sequence[frozenset[Path]]:
    """Divide the files that only one worker collects among `count` workers: about as many bytes for each."""
    sizes = [(path.stat().st_size, path) for path in (ROOT / "tests").rglob("test_*.py") if is_of_one_worker(path)]
    found: list[set[Path]] = [set() for _ in range(count)]
    bytes_of = [0] * count
    for size, path in sorted(sizes, reverse=True):
        least = bytes_of.index(min(bytes_of))
        found[least].add(path)
        bytes_of[least] += size
    return [frozenset(each) for each in found]


def is_of_one_worker(path: Path) -> bool:
    """Whether a file is in no group, and does not belong to those that begin first."""
    name = path.relative_to(ROOT).as_posix()
    return place(name) == len(FIRST) and not name.startswith(COMPUTING) and name not in KAFKA


class GroupScheduling(LoadScopeScheduling):  # type: ignore[misc]
    """Hands out whole groups: a worker gets the first group of its order that no other one has got."""

    collection: list[str] | None

    def __init__(self, config: pytest.Config, log: object) -> None:
        super().__init__(config, log)
        self._groups: dict[WorkerController, dict[str, list[int]]] = {}
        """The places of the tests of each group in the collection of a worker, in its order."""
        self._waiting: dict[WorkerController, deque[str]] = {}

    def _split_scope(self, nodeid: str) -> str:
        return scope(nodeid)

    def add_node_collection(self, node: WorkerController, collection: Iterable[str]) -> None:
        self.registered_collections[node] = list(collection)
        groups: dict[str, list[int]] = {}
        for at, nodeid in enumerate(self.registered_collections[node]):
            groups.setdefault(scope(nodeid), []).append(at)
        self._groups[node] = groups
        self._waiting[node] = deque(groups)

    def remove_node(self, node: WorkerController) -> str | None:
        # If it has crashed, the others, or the worker that replaces it, get what it has not completed.
        for each in self._groups:
            self._waiting[each] = deque(self._groups[each])
        crashed: str | None = super().remove_node(node)
        return crashed

    def schedule(self) -> None:
        if self.collection is None:
            for collection in self.registered_collections.values():
                for nodeid in collection:
                    self.workqueue.setdefault(scope(nodeid), {})[nodeid] = False
            for node, groups in self._groups.items():
                for name, places in groups.items():
                    assert len(places) == len(self.workqueue[name]), f"{node}: lacks tests of the group {name}"
            collected = [nodeid for group in self.workqueue.values() for nodeid in group]
            # For the percentage that is shown: xdist takes the number of the last worker.
            self.config.pluginmanager.getplugin("terminalreporter")._session.testscollected = len(collected)
            self.collection = collected
        # The next group waits at a worker while it runs the one before.
        for _ in range(2):
            for node in self.nodes:
                self._reschedule(node)

    def _reschedule(self, node: WorkerController) -> None:
        # A worker that replaces another one has not collected yet.
        if node.shutting_down or node not in self._waiting:
            return
        waiting = self._waiting[node]
        while waiting and waiting[0] not in self.workqueue:
            waiting.popleft()
        if not waiting:
            node.shutdown()
        elif self._pending_of(self.assigned_work[node]) <= PENDING_MAX:
            group = waiting.popleft()
            tests = self.assigned_work[node][group] = self.workqueue.pop(group)
            collection = self.registered_collections[node]
            node.send_runtest_some([at for at in self._groups[node][group] if not tests[collection[at]]])


class Scheduling:
    """The plugin."""

    def pytest_ignore_collect(self, collection_path: Path, config: pytest.Config) -> bool | None:
        # A worker that replaces one has a higher number, and collects all files.
        number, count = worker_of(config)
        if number < count > 1 and any(collection_path in share for share in shares(count)):
            return None if collection_path in shares(count)[number] else True
        return None

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = order(items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: object) -> GroupScheduling:
        return GroupScheduling(config, log)


def worker_of(config: pytest.Config) -> tuple[int, int]:
    """Return the number of this worker and how many there are; (0, 1) if this is no worker."""
    given: dict[str, str] = getattr(config, "workerinput", {})
    if not given:
        return 0, 1
    return int(given["workerid"].removeprefix("gw")), int(given["workercount"])
