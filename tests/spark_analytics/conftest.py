"""One Spark session for all tests: a JVM takes seconds to start."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from spark_analytics.jars import SetUpError, fetch
from spark_analytics.session import session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    try:
        fetch()
        made = session("tests", master="local[2]")
    except SetUpError as error:
        pytest.skip(str(error))
    yield made
    made.stop()
