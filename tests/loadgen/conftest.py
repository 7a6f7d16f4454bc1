"""The brokers that runs are made against."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support import needs
from tests.support.both_brokers import running
from tests.support.broker import Target


@pytest.fixture(scope="module", params=["broker-cy", pytest.param("kafka", marks=[pytest.mark.full, needs.kafka])])
def either_broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """Our broker, and Apache Kafka."""
    with running(request.param, tmp_path_factory.mktemp("load")) as target:
        yield target


@pytest.fixture
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """Our broker, for a test that stops or kills it."""
    with running("broker-cy", tmp_path_factory.mktemp("load")) as target:
        yield target
