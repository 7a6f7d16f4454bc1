"""One Spark session for all tests of a process: a JVM takes seconds to start."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_analytics.errors import SetUpError
from spark_analytics.jars import fetch
from spark_analytics.lake import Lake
from spark_analytics.session import session
from tests.spark_analytics import planted_lake

# The tables of tests are small: most of the time is spent on compiling what runs once. With the first compiler alone,
# an ingest of a few samples takes half the CPU time (13 s instead of 22 s in a new JVM); a small heap needs no threads
# that collect garbage beside the tests. Programs that tests start inherit this.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=192m -XX:+UseSerialGC")

FOLDER = Path(__file__).parent
# Files with more than 10 s. The second process has another one to begin with than those that need the lake.
LONG = (
    "report/test_collect.py", "test_ingest.py", "test_cluster.py", "jobs/test_planted.py", "report/test_page.py",
    "segments/test_official_source.py", "jobs/test_streaming.py", "test_commands.py", "test_plans.py",
)  # fmt: skip


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    try:
        fetch()
        made = session("tests", master="local[2]", kafka=True)
    except SetUpError as error:
        pytest.skip(str(error))
    yield made
    made.stop()


@pytest.fixture(scope="session")
def shared_lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """The lake of `planted_lake`, which nobody writes to: one for all processes of a run."""
    own = tmp_path_factory.getbasetemp()
    return planted_lake.made(spark, own.parent if "PYTEST_XDIST_WORKER" in os.environ else own)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take longest: one that begins last would run alone."""
    order = {FOLDER / name: place for place, name in enumerate(LONG)}
    items.sort(key=lambda item: order.get(item.path, len(LONG)))
