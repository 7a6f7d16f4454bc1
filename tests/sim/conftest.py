"""Fixtures that the simulations share."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture
def no_log_lines() -> Iterator[None]:
    """Write no log lines. Each start logs its repairs, which would take most of the time and of the output. Also,
    pytest keeps each line with its traceback, whose frames keep the logs and their files open.
    """
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)
