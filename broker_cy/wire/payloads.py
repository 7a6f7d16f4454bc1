"""The codecs of record batches by their ids, and the errors of compressed payloads: `compression` and `framings` share
them.
"""

import mmap
from enum import IntEnum

Buffer = bytes | bytearray | memoryview | mmap.mmap


class Codec(IntEnum):
    """Bits 0-2 of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class CorruptPayload(ValueError):
    """The compressed bytes are not valid for their codec."""


class PayloadTooLarge(ValueError):
    """The payload decompresses to more bytes than the caller allows."""


def too_large(limit: int) -> PayloadTooLarge:
    """The error for a batch of more than `limit` bytes."""
    return PayloadTooLarge(f"the batch decompresses to more than {limit} bytes")
