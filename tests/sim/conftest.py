"""What the simulations share."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture
def no_log_lines() -> Iterator[None]:
    """Write no log lines. Each start reports what it repairs, which would be most of the time and of the output; and
    pytest keeps each line with its traceback, whose frames hold the logs and their files.
    """
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)
