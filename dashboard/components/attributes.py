"""Attributes whose names are not Python's: `aria-label`, `data-panel`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def attributes(values: Mapping[str, str]) -> dict[str, Any]:
    """Return attributes as keyword arguments of a component of dash.html, which declares only the attributes that it
    knows.
    """
    return dict(values)
