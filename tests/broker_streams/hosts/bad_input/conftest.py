"""The broker of applications with bad input."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.broker_streams.brokers import SETTINGS
from tests.broker_streams.hosts.bad_input.ending import ABORT_MS
from tests.support.broker import BrokerProcess


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    given = SETTINGS | {"transaction.abort.timed.out.transaction.cleanup.interval.ms": str(ABORT_MS)}
    made = BrokerProcess(tmp_path_factory.mktemp("bad-input"), given)
    try:
        yield made.start()
    finally:
        made.close()
