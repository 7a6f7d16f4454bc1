"""A broker for the tests of the console core."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from tests.support.broker import QUICK, BrokerProcess


@pytest.fixture(scope="session")
def broker_cy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One broker for the tests of the console core. An open transaction counts as hanging after a second."""
    settings = {
        **QUICK,
        "transaction.partition.verification.enable": "false",
        "transaction.max.timeout.ms": "1000",
    }
    broker = BrokerProcess(tmp_path_factory.mktemp("console-broker"), settings)
    try:
        yield broker.start()
    finally:
        broker.close()


@pytest.fixture
def name() -> str:
    """Return a unique name."""
    return "n-" + uuid.uuid4().hex[:10]
