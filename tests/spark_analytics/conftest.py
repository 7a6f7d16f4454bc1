"""One Spark session for all tests that need one; these tests share a worker, because a JVM takes seconds to start."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from pyspark.sql import SparkSession

from spark_analytics.lake import Lake
from spark_analytics.session import session
from tests.spark_analytics import planted_lake
from tests.support import needs

# The tables of tests are small: most of the time is spent on compiling code that runs once. With only the first
# compiler, an ingest of a few samples takes half the CPU time (13 s instead of 22 s in a new JVM); a small heap needs
# no garbage collector threads that run in parallel to the tests.
JVM_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=192m -XX:+UseSerialGC"


@contextmanager
def quick_jvms() -> Iterator[None]:
    """Give JVMs that start in the block the options for small tables; other tests' JVMs have another garbage
    collector.
    """
    with pytest.MonkeyPatch.context() as patch:
        if "JDK_JAVA_OPTIONS" not in os.environ:
            patch.setenv("JDK_JAVA_OPTIONS", JVM_OPTIONS)
        yield


@contextmanager
def sigint_as_before() -> Iterator[None]:
    """Restore the handler of SIGINT, which a new SparkContext replaces: later tests in this process send SIGINT."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.fixture(autouse=True)
def sigint_as_before_commands() -> Iterator[None]:
    """The same for commands that run in this process."""
    with sigint_as_before():
        yield


@pytest.fixture(scope="module", autouse=True)
def quick_jvms_of_commands() -> Iterator[None]:
    """The same for commands that tests run."""
    with quick_jvms():
        yield


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    needs.require(needs.spark())
    with quick_jvms(), sigint_as_before():
        made = session("tests", master="local[2]", kafka=True)
    yield made
    made.stop()


@pytest.fixture(scope="session")
def shared_lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """The lake of `planted_lake`, which no test writes to."""
    return planted_lake.made(spark, tmp_path_factory.mktemp("planted"))
