"""The codecs of record batches, in the framings that Kafka's clients use.

| id | codec  | framing read | framing written |
|----|--------|--------------|-----------------|
| 1  | gzip   | RFC 1952, several members | one member |
| 2  | snappy | raw block (librdkafka, Go); snappy-java's stream (Java, Python) | snappy-java's, blocks of 32 KiB |
| 3  | lz4    | LZ4 frame, version 1, independent blocks | blocks of 64 KiB, no checksums (at the default level) |
| 4  | zstd   | RFC 8878, several frames | one frame |

snappy-java's stream: magic `82 "SNAPPY" 00`, version int32, oldest compatible version int32, then raw blocks, each with
its int32 length in front; several such streams may be concatenated. LZ4 frames with linked blocks are refused, as by
Kafka's own reader.

No memory is allocated just because a size is claimed: before decoding, an upper bound is computed from the actual block
structure, and `limit` caps it.
"""

from broker_cy.wire.payloads import Buffer as Buffer
from broker_cy.wire.payloads import Codec as Codec
from broker_cy.wire.payloads import CorruptPayload as CorruptPayload
from broker_cy.wire.payloads import PayloadTooLarge as PayloadTooLarge
from broker_cy.wire.payloads import too_large

_UNKNOWN = "compression codec %d is not one of 0 (none), 1 (gzip), 2 (snappy), 3 (lz4), 4 (zstd)"
_FLOOR_BYTES = 128 << 20
_RATIO = 32


def decompressed_limit(compressed_bytes: int) -> int:
    """The largest decompressed size of a batch from the network: 128 MiB, or 32 times its size if that is more, but
    less than 2 GiB.

    Kafka has no such bound. Ordinary data stays far below it (1 MiB of zstd is seldom more than 20 MiB of records);
    a batch that reaches it was made to exhaust the broker. Java clients cannot hold more than 2 GiB in any case.
    """
    return min(max(_FLOOR_BYTES, _RATIO * compressed_bytes), (1 << 31) - 1)


def decompress(codec: int, payload: Buffer, limit: int) -> memoryview:
    """The records of a batch, at most `limit` bytes.

    Raises CorruptPayload; PayloadTooLarge if there are more than `limit` bytes; ValueError for an unknown codec.
    """
    view = memoryview(payload).cast("B")
    if codec == Codec.NONE:
        if len(view) > limit:
            raise too_large(limit)
        return view
    # Here, because a broker whose clients do not compress has no use for the libraries.
    from broker_cy.wire import framings

    reader = framings.READERS.get(codec)
    if reader is None:
        raise ValueError(_UNKNOWN % codec)
    try:
        return reader(view, limit)
    except framings.INVALID as error:
        raise CorruptPayload(f"{Codec(codec).name.lower()} payload of {len(view)} bytes: {error}") from error


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    """`data`, compressed, in the framing given above.

    `level` is that of Kafka's `compression.<codec>.level`: gzip -1 (default) and 1..9, lz4 1..17, zstd -131072..22;
    None is Kafka's default, and snappy has no levels. Raises ValueError for an unknown codec or a level out of range.
    """
    view = memoryview(data).cast("B")
    if codec == Codec.NONE:
        return bytes(view)
    from broker_cy.wire import framings

    writer = framings.WRITERS.get(codec)
    if writer is None:
        raise ValueError(_UNKNOWN % codec)
    return writer(view, level)
