"""Joiners of users, as the joins call them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from broker_streams.plan.functions import Function

# Called with the key, the value of the left side and that of the right side.
Joiner = Callable[[Any, Any, Any], Any]


def joiner_with_key(joiner: Function, with_key: bool) -> Joiner:
    """The joiner with a key, which those of most users do not take."""
    call = joiner.call
    if with_key:
        return call
    return lambda key, left, right: call(left, right)
