"""Figures of the batch code alone, on one core: CRC-32C, validation, reading and writing of records.

    python -m bench.studies.micro_batch

Each figure is CPU time, the best of several rounds, so that other work on the machine has little effect.
"""

import random
import time
from collections.abc import Callable
from functools import partial

from broker_cy.core import crc32c
from broker_cy.wire.batch import validate
from broker_cy.wire.compression import Codec, compress, decompress
from broker_cy.wire.records import Record, decode_batches, encode_batch

NOW_MS = 1_700_000_000_000
ROUNDS = 5
ROUND_S = 0.05


def best_s(work: Callable[[], object]) -> float:
    """Return the seconds of one call in the best round."""
    started = time.process_time()
    work()
    calls = max(1, int(ROUND_S / (time.process_time() - started + 1e-9)))
    rounds = []
    for _ in range(ROUNDS):
        started = time.process_time()
        for _ in range(calls):
            work()
        rounds.append((time.process_time() - started) / calls)
    return min(rounds)


def crc_figures() -> None:
    for size in (256, 1024, 16 * 1024, 1 << 20, 64 << 20):
        data = random.Random(1).randbytes(size)
        for name in crc32c.implementations():
            took = best_s(partial(crc32c.value_with, name, data))
            print(f"crc32c {name:13} {size:9} B  {took * 1e9:12.0f} ns  {size / took / 1e9:6.2f} GB/s")


def batch_of(count: int, value_bytes: int, codec: Codec = Codec.NONE) -> bytes:
    noise = random.Random(2)
    words = [noise.randbytes(6).hex().encode() for _ in range(200)]
    values = [b" ".join(noise.choices(words, k=value_bytes // 13 + 1))[:value_bytes] for _ in range(count)]
    return encode_batch([Record(0, NOW_MS + place, None, value) for place, value in enumerate(values)], codec=codec)


def validate_figures() -> None:
    for count, value_bytes in ((1, 100), (150, 100), (1000, 1000), (9000, 100), (100_000, 10)):
        data = bytearray(batch_of(count, value_bytes))
        took = best_s(partial(validate, data, now_ms=NOW_MS, max_message_bytes=1 << 30))
        crc = best_s(partial(crc32c.value, data))
        print(
            f"validate {count:6} x {value_bytes:4} B  {took * 1e6:9.2f} us {took / count * 1e9:7.1f} ns a record, "
            f"checksum {crc / count * 1e9:6.1f}"
        )
    for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD):
        data = bytearray(batch_of(1000, 1000, codec))
        took = best_s(partial(validate, data, now_ms=NOW_MS, max_message_bytes=1 << 30))
        print(f"validate {codec.name:6} 1000 x 1000 B  {took * 1e3:7.2f} ms  {1e6 / took / 1e9:5.2f} GB/s of records")


def record_figures() -> None:
    many = b"".join(
        encode_batch([Record(0, NOW_MS, b"group-%06d" % place, bytes(40))], base_offset=place)
        for place in range(100_000)
    )
    took = best_s(lambda: sum(len(batch.records()) for batch in decode_batches(many)))
    print(f"decode 100,000 batches of 1 record   {took * 1e3:7.1f} ms  {took * 1e4:7.1f} ns a record")
    one = batch_of(100_000, 40)
    took = best_s(lambda: sum(len(batch.records()) for batch in decode_batches(one)))
    print(f"decode 1 batch of 100,000 records    {took * 1e3:7.1f} ms  {took * 1e4:7.1f} ns a record")
    records = next(decode_batches(one)).records()
    took = best_s(lambda: encode_batch(records))
    print(f"encode 1 batch of 100,000 records    {took * 1e3:7.1f} ms  {took * 1e4:7.1f} ns a record")
    single = records[:1]
    took = best_s(lambda: encode_batch(single))
    print(f"encode 1 batch of 1 record           {took * 1e9:7.0f} ns")


def codec_figures() -> None:
    data = bytes(memoryview(batch_of(1000, 1000))[61:])
    for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD):
        packed = compress(codec, data)
        pack = best_s(partial(compress, codec, data))
        unpack = best_s(partial(decompress, codec, packed, 1 << 30))
        size = len(data) / 1e9
        rates = f"compress {size / pack:5.2f}  decompress {size / unpack:5.2f} GB/s"
        print(f"{codec.name:6} 1 MB to {len(packed):7} B  {rates}")


def main() -> None:
    """Print every figure."""
    crc_figures()
    validate_figures()
    record_figures()
    codec_figures()


if __name__ == "__main__":
    main()
