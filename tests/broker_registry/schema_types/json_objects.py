"""The objects of a JSON value: those of a schema are schemas, mostly."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def objects_in(value: Any) -> Iterator[dict[str, Any]]:
    """Return all objects, the outermost first."""
    if isinstance(value, dict):
        yield value
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from objects_in(each)
