"""The order of tests, and their grouping on workers of pytest-xdist (`--dist loadgroup`).

The tests of a file run on one worker, so that its fixtures are set up once. Exceptions are the files of SPREAD, whose
tests are long and independent, those of KAFKA, which all run on one worker, and tests with an `xdist_group` mark, which
share a worker with their group. The files that take longest begin first: a file that begins last would run alone on one
core. Simulations, which only compute, are spread among the others, which mostly wait for programs that they started:
together they use both cores.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from operator import itemgetter
from pathlib import Path
from typing import Final

import pytest
from xdist.scheduler import LoadScopeScheduling

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


class GroupScheduling(LoadScopeScheduling):  # type: ignore[misc]
    """Hands out whole groups, in the order of the collection."""

    def _split_scope(self, nodeid: str) -> str:
        return scope(nodeid)


class Scheduling:
    """The plugin."""

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = order(items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: object) -> GroupScheduling:
        config.option.loadscopereorder = False
        return GroupScheduling(config, log)
