"""Fixtures that the simulations share."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from tests.support.power import steady_files


@pytest.fixture
def no_log_lines() -> Iterator[None]:
    """Write no log lines. Each start logs its repairs, which would take most of the time and of the output. Also,
    pytest keeps each line with its traceback, whose frames keep the logs and their files open.
    """
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture
def steady() -> Iterator[None]:
    """As steady_files: a seed draws the same on every machine and in every process."""
    with steady_files():
        yield
