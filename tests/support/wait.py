"""Waiting for a condition: tests only wait in this way."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def until(
    condition: Callable[[], T | None],
    what: str,
    timeout_s: float = 60.0,
    interval_s: float = 0.02,
    tolerate: tuple[type[Exception], ...] = (),
) -> T:
    """The first true value of `condition()`, called every `interval_s`.

    AssertionError names `what` (and the last value or error) after `timeout_s`. Exceptions in `tolerate` count as "not
    yet"; an AssertionError that the condition itself raises ends the waiting.
    """
    deadline = time.monotonic() + timeout_s
    last: object = None
    while True:
        try:
            value = condition()
            if value:
                return value
            last = value
        except tolerate as error:
            last = error
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not come within {timeout_s:g} s; last seen: {last!r}")
        time.sleep(interval_s)
