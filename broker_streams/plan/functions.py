"""Functions of users in a plan.

A plan is data. A Python function is no data, so the plan holds its place, `NODE.FIELD`, and the program that wrote the
plan gives the function for that place again when the plan is read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Function:
    """A function at a place of the plan. Two functions are equal if their places are."""

    place: str
    call: Callable[..., Any] = field(compare=False, repr=False)

    @property
    def text(self) -> str:
        """The qualified name, for people."""
        return getattr(self.call, "__qualname__", type(self.call).__qualname__)
