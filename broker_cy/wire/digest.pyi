from typing_extensions import Buffer

from broker_cy.wire.records import Batch

PAYLOAD_BYTES_MAX: int

def hashed(data: Buffer, seed: int = ...) -> int:
    """Return XXH64 of bytes."""

def is_same_payload(one: Batch, other: Batch, with_times: bool = ...) -> bool:
    """Return whether two batches have the same records, from their bytes: the payloads are equal byte for byte, and so
    are the fields of the headers that records need. False does not mean that the records differ.
    """

def record_hashes(
    batch: Batch, first: int, end: int, with_times: bool = ..., with_keys: bool = ...
) -> tuple[bytes, bytes, bytes]:
    """Return the records of a batch from the offset `first` up to, but not including, `end`, as numbers of 64 bits in
    the order of this machine: their offsets (int64), their hashes (uint64), and with `with_keys` the hashes of their
    keys, else b"". A key hash has its last bit set if the value is null. Without `with_times`, timestamps are not part
    of the hashes.

    Raises WireError, which describes the fault. The checksum is not checked.
    """

def folded(digest: int, hashes: Buffer) -> int:
    """Return the digest of records that continue those of `digest` (0 for none), from their hashes."""

def joined(first: int, second: int, records: int) -> int:
    """Return the digest of two parts; the second one has `records` records."""
