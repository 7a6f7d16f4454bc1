from typing_extensions import Buffer

def value(data: Buffer, crc: int = 0) -> int:
    """CRC-32C of `data`, continuing from `crc`: value(b, value(a)) == value(a + b)."""

def implementations() -> tuple[str, ...]:
    """Names of the implementations this processor can run, slowest first; `value` uses the last."""

def value_with(implementation: str, data: Buffer, crc: int = 0) -> int:
    """`value` by a named implementation. Raises ValueError for a name not in `implementations()`."""
