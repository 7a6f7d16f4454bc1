"""The broker of tests of batches."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.broker_streams.brokers import SETTINGS
from tests.support.broker import BrokerProcess


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    made = BrokerProcess(tmp_path_factory.mktemp("spark-broker"), SETTINGS)
    try:
        yield made.start()
    finally:
        made.close()
