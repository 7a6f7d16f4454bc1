"""Regular expressions of schemas. Those of Python may take exponential time for a short text; those of the library that
validates records take bounded time.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

PATTERNS_MAX: Final = 256
"""Patterns that are kept."""


def is_found(pattern: str, text: str) -> bool:
    """Return whether a part of the text fits the pattern; none fits a pattern that is malformed, or that needs too many
    steps.
    """
    validator = _validator(pattern)
    return validator is not None and bool(validator.is_valid(text))


@lru_cache(PATTERNS_MAX)
def _validator(pattern: str) -> Any:
    """Return None for a malformed pattern."""
    # Imported here, because few schemas have patterns.
    import jsonschema_rs

    try:
        return jsonschema_rs.Draft7Validator({"pattern": pattern})
    except jsonschema_rs.ValidationError:
        return None
