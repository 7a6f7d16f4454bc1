"""Access to logged events."""

import logging
from typing import Any


def fields_of(record: logging.LogRecord) -> dict[str, Any]:
    """The fields of an event, by name; KeyError if it has no fields."""
    found: dict[str, Any] = record.__dict__["fields"]
    return found
