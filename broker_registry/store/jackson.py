"""JSON bytes as Jackson writes them, so that records of one key have one key for the log cleaner too."""

from __future__ import annotations

from typing import Any

import orjson

from broker_registry.schema_types.json_text import with_upper_escapes


def dumps(value: Any) -> bytes:
    """Return the bytes of an object of JSON's types. Raises TypeError for text that is not valid Unicode."""
    return with_upper_escapes(orjson.dumps(value))
