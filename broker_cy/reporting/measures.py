"""Columns of measured figures, whose unit is in their title."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from broker_cy.reporting.column import Column, Kind
from broker_cy.reporting.numbers import fixed, precise, share

R = TypeVar("R")


def figure(key: str, title: str, value: Callable[[R], float | None], digits: int = 0) -> Column[R]:
    """Return a column of numbers with these decimals."""
    return Column(key, title, value, Kind.COUNT, text=lambda row: fixed(value(row), digits))


def milliseconds(key: str, title: str, value: Callable[[R], float | None]) -> Column[R]:
    """Return a column of latencies with three significant digits."""
    return Column(key, title, value, Kind.COUNT, text=lambda row: precise(value(row)))


def part(key: str, title: str, value: Callable[[R], float | None]) -> Column[R]:
    """Return a column of shares, as percentages; the values are parts of 1."""
    return Column(key, title, value, Kind.COUNT, text=lambda row: share(value(row)))
