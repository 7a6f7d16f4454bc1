from typing import Any

from broker_streams.records import Headers
from broker_streams.serdes import Serde

def write(serde: Serde, topic: str, value: Any, headers: Headers) -> bytes | None:
    """The bytes of a value, as a sink writes it."""

def read(serde: Serde, topic: str, data: bytes | None, headers: Headers) -> Any:
    """The value of bytes, as a source reads it."""
