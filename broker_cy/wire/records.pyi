from collections.abc import Iterable, Iterator
from typing import overload

from typing_extensions import Buffer

from broker_cy.wire.compression import Codec
from broker_cy.wire.record import Record as Record

MAX_PAYLOAD_BYTES: int

class Batch:
    """One batch of a buffer, whose records are decoded on demand. Keeps the buffer alive.

    Made by decode_batches. Attributes are the header's fields; `position` and `size_bytes` are its place in the buffer.
    """

    @property
    def position(self) -> int: ...
    @property
    def size_bytes(self) -> int: ...
    @property
    def base_offset(self) -> int: ...
    @property
    def last_offset(self) -> int: ...
    @property
    def leader_epoch(self) -> int: ...
    @property
    def crc(self) -> int: ...
    @property
    def attributes(self) -> int: ...
    @property
    def codec(self) -> Codec | int:
        """A Codec, or the plain number if there is no such Codec."""
    @property
    def is_transactional(self) -> bool: ...
    @property
    def is_control(self) -> bool: ...
    @property
    def last_offset_delta(self) -> int: ...
    @property
    def base_timestamp(self) -> int: ...
    @property
    def max_timestamp(self) -> int: ...
    @property
    def producer_id(self) -> int: ...
    @property
    def producer_epoch(self) -> int: ...
    @property
    def base_sequence(self) -> int: ...
    @property
    def last_sequence(self) -> int:
        """-1 if there is no base sequence; after 2**31 - 1, sequence numbers continue at 0."""
    @property
    def count(self) -> int: ...
    @property
    def data(self) -> memoryview:
        """A read-only memoryview of the whole batch, which must be released before the buffer."""
    def computed_crc(self) -> int:
        """The checksum of the actual bytes."""
    def is_valid(self) -> bool:
        """Whether the checksum is correct."""
    @overload
    def records(self, max_payload_bytes: int = ...) -> list[Record]:
        """A new list of the batch's records.

        Raises WireError if they are malformed, do not decompress, or decompress to more than `max_payload_bytes`. The
        checksum is not checked: see is_valid.
        """
    @overload
    def records(self, max_payload_bytes: int = ..., containing: bytes | None = ...) -> list[Record] | None:
        """The same, or None if `containing` occurs nowhere in the records, which are then not decoded."""
    def set_rows(
        self,
        rows: dict[bytes, bytes | None],
        first: int,
        end: int,
        *,
        timestamps: bool = False,
        max_payload_bytes: int = ...,
    ) -> int:
        """Set the values of keys, None for a deletion, by the records with offsets from `first` to `end` (not
        included). Returns how many these are; those without a key set nothing. With `timestamps`, each value has its
        timestamp before it, as a big-endian int64.

        Raises WireError as `records`; some rows may be set then.
        """
    def __iter__(self) -> Iterator[Record]: ...

def decode_batches(buffer: Buffer) -> Iterator[Batch]:
    """An iterator over the batches of a bytes-like object, such as a segment file or the records field of a Fetch
    response.

    An incomplete batch at the end is ignored, as consumers do. Raises WireError for magic 0 and 1 or a length that is
    too small. The buffer must not change while the iterator or one of its batches lives.
    """

def encode_batch(
    records: Iterable[Record],
    *,
    base_offset: int = 0,
    codec: Codec | int | None = None,
    level: int | None = None,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    control: bool = False,
    leader_epoch: int = -1,
    log_append_time_ms: int | None = None,
) -> bytes:
    """One batch of `records` (at least one), at consecutive offsets from `base_offset`; the records' own offsets are
    ignored.

    `codec` is a Codec, its number, or None; `level` as in compression.compress. Timestamps are the records' own
    (CreateTime), unless `log_append_time_ms` is given, which then applies to all (LogAppendTime). Raises ValueError for
    no records, an unknown codec or a level out of range; TypeError for something that is not a Record; WireError for
    more than a batch can hold.
    """

def rebuild_batch(
    data: Buffer, *, codec: Codec | int | None = None, level: int | None = None, log_append_time_ms: int | None = None
) -> bytes:
    """Encode the one batch in `data` again, with consecutive offset deltas, and with another codec if `codec` is not None.

    For a batch whose verdict has `rebuild` set: the topic's compression.type is not what the producer used, or deltas
    had gaps. Raises WireError if `data` does not contain a whole batch, or if its records are malformed or exceed
    compression.decompressed_limit.
    """
