"""JSON: objects, lists, text, numbers, true, false. The text has no blanks, as Jackson writes it."""

from __future__ import annotations

import json
from typing import Any, Final

from broker_streams.records import NO_HEADERS, Headers
from broker_streams.serdes import SerdeError, shown

# Not in the serde: a decoder cannot be copied to another process.
_encode: Final = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode
_decode: Final = json.JSONDecoder().decode


class JsonSerde:
    """A record whose value is the JSON text `null` has None as its value; None itself is a tombstone."""

    name: Final = "JSON"

    def serialize(self, topic: str, value: Any, headers: Headers = NO_HEADERS) -> bytes | None:
        if value is None:
            return None
        try:
            return _encode(value).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise SerdeError(f"{topic}: {shown(value)} cannot be JSON: {error}") from None

    def deserialize(self, topic: str, data: bytes | None, headers: Headers = NO_HEADERS) -> Any:
        if data is None:
            return None
        try:
            return _decode(data.decode())
        except (ValueError, RecursionError) as error:
            raise SerdeError(f"{topic}: {shown(data)} is no JSON: {error}") from None


JSON: Final = JsonSerde()
