"""The order of tests, and which of them share a worker of pytest-xdist (`--dist loadgroup`).

The tests of a file run on one worker, so that its fixtures are set up once. Exceptions are the files of SPREAD, whose
tests are long and independent, those of KAFKA, which all run on one worker, and tests with an `xdist_group` mark, which
share a worker with their group. The files that take longest begin first: a file that begins last would run alone on one
core.
"""

from __future__ import annotations

from typing import Final

import pytest
from xdist.scheduler import LoadScopeScheduling

SPREAD: Final = ("tests/fuzz/test_fuzz.py", "tests/sim/test_world.py", "tests/sim/test_quorum_simulation.py")
# They share the session of Spark and its JVM, also where they run a command in their own process.
SPARK: Final = "tests/spark_analytics/"
# They share the JVM of Kafka's tools (tests/support/kafka_tools.py) and one running Kafka (`live_kafka`).
KAFKA: Final = (
    "tests/broker_cy/admin/test_calls.py",
    "tests/broker_cy/admin/test_groups.py",
    "tests/broker_cy/admin/test_lag.py",
    "tests/broker_cy/admin/test_records.py",
    "tests/broker_cy/admin/test_transactions.py",
    "tests/broker_cy/commands/test_quotas.py",
    "tests/broker_cy/controller/test_like_kafka.py",
    "tests/broker_cy/quotas/test_like_kafka.py",
    "tests/broker_cy/server/test_kafka_on_our_groups.py",
    "tests/broker_cy/server/test_kafka_on_our_metadata.py",
    "tests/broker_cy/server/test_storage_tool.py",
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
FIRST: Final = (
    SPARK,
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
        items.sort(key=lambda item: place(item.nodeid))

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: object) -> GroupScheduling:
        config.option.loadscopereorder = False
        return GroupScheduling(config, log)
