"""Fixtures shared by the tests of the benchmark toolkit."""

from __future__ import annotations

import pytest

from bench.launch.nodes import Node
from bench.wire import batches
from tests.support.forking import Forking


@pytest.fixture(autouse=True)
def small_pools(monkeypatch: pytest.MonkeyPatch) -> None:
    """Encode few records for a window: 50,000 take longer than the window of a test."""
    monkeypatch.setattr(batches, "POOL_RECORDS", 2_000)


@pytest.fixture(autouse=True)
def forked_brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork the brokers of runs in this process, as those of other tests."""
    monkeypatch.setattr(Node, "new_child", Forking.new_child)
