"""Fixtures shared by the tests of the benchmark toolkit."""

from __future__ import annotations

import pytest

from bench.wire import batches


@pytest.fixture(autouse=True)
def small_pools(monkeypatch: pytest.MonkeyPatch) -> None:
    """Encode few records for a window: 50,000 take longer than the window of a test."""
    monkeypatch.setattr(batches, "POOL_RECORDS", 2_000)
