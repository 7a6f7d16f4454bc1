"""Records fields of Produce requests, valid and invalid, which record_verdicts.py sends to a real Kafka."""

import struct
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

from cramjam import lz4, snappy, zstd

from broker_cy.core import crc32c
from broker_cy.wire.records import Record, encode_batch
from tests.support.raw_wire import varint

# Topics, by the settings that differ from the defaults.
TOPICS: dict[str, dict[str, str]] = {
    "plain": {},
    "append-time": {"message.timestamp.type": "LogAppendTime"},
    "compacted": {"cleanup.policy": "compact"},
    "small": {"max.message.bytes": "300"},
    "recent": {"message.timestamp.before.max.ms": "86400000"},
    "gzip": {"compression.type": "gzip"},
}

OLD_MS = 1_000_000_000_000  # 2001: longer ago than any limit
FUTURE_MS = 4_102_444_800_000  # 2100: later than any limit
CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}

AT = {"base_offset": 0, "length": 8, "magic": 16, "attributes": 21, "last_offset_delta": 23, "base_timestamp": 27}
AT |= {"max_timestamp": 35, "producer_id": 43, "producer_epoch": 51, "base_sequence": 53, "count": 57, "records": 61}


class Case(NamedTuple):
    """One request: `records` is the records field as sent."""

    name: str
    records: bytes
    topic: str = "plain"
    version: int = 9


def records(count: int = 3, *, key: bytes | None = b"k", timestamp: int = OLD_MS) -> list[Record]:
    made = [Record(timestamp=timestamp + i, key=key, value=b"value %d" % i) for i in range(count)]
    made[-1] = Record(timestamp=timestamp + count - 1, key=key, value=None, headers=[("name", b"x"), ("", None)])
    return made


def batch(count: int = 3, codec: int = 0, **options: Any) -> bytes:
    return encode_batch(records(count), codec=codec, **options)


def fixed(data: bytes | bytearray) -> bytes:
    """Set the length and checksum that match the bytes."""
    data = bytearray(data)
    struct.pack_into(">i", data, 8, len(data) - 12)
    struct.pack_into(">I", data, 17, crc32c.value(bytes(data[21:])))
    return bytes(data)


def with_field(data: bytes, field: str, layout: str, value: int) -> bytes:
    changed = bytearray(data)
    struct.pack_into(f">{layout}", changed, AT[field], value)
    return fixed(changed)


def with_payload(data: bytes, payload: bytes, codec: int) -> bytes:
    return with_field(data[: AT["records"]] + payload, "attributes", "h", codec)


def raw_record(body: bytes, length: int | None = None) -> bytes:
    return varint(len(body) if length is None else length) + body


def body(
    delta: int = 0, *, key: bytes = varint(1) + b"k", value: bytes = varint(1) + b"v", headers: bytes = varint(0)
) -> bytes:
    return b"\0" + varint(0) + varint(delta) + key + value + headers


# Possible errors of one record, as the bytes of a batch of one record.
STRUCTURES = {
    "sound": raw_record(body()),
    "length-0": raw_record(b"", 0) + body(),
    "length-negative": raw_record(body(), -1),
    "length-beyond-end": raw_record(body(), 500),
    "length-one-short": raw_record(body(), len(body()) - 1),
    "length-one-long": raw_record(body(), len(body()) + 1) + b"\0",
    "varint-too-long": raw_record(b"\0" + b"\xff" * 11 + body()[2:]),
    "offset-varint-too-long": raw_record(b"\0\0" + b"\xff" * 6 + body()[3:]),
    "key-beyond-record": raw_record(body(key=varint(100) + b"k")),
    "key-minus-2": raw_record(body(key=varint(-2))),
    "value-beyond-record": raw_record(body(value=varint(100) + b"v")),
    "value-minus-9": raw_record(body(value=varint(-9))),
    "headers-minus-1": raw_record(body(headers=varint(-1))),
    "headers-too-many": raw_record(body(headers=varint(5))),
    "headers-huge": raw_record(body(headers=varint(2**31 - 1))),
    "header-key-null": raw_record(body(headers=varint(1) + varint(-1) + varint(0))),
    "header-value-null": raw_record(body(headers=varint(1) + varint(1) + b"h" + varint(-1))),
    "header-key-beyond": raw_record(body(headers=varint(1) + varint(90) + b"h" + varint(-1))),
    "header-key-not-utf8": raw_record(body(headers=varint(1) + varint(1) + b"\xff" + varint(-1))),
    "bytes-behind-fields": raw_record(body() + b"\0\0"),
    "bytes-behind-record": raw_record(body()) + b"\0\0\0",
    "second-record-behind": raw_record(body()) + raw_record(body(1)),
    "no-records": b"",
    "attributes-set": raw_record(b"\xff" + body()[1:]),
    "offset-delta-5": raw_record(body(5)),
    "offset-delta-minus-1": raw_record(body(-1)),
}


def gzip(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=31)
    return packer.compress(data) + packer.flush()


def snappy_stream(data: bytes) -> bytes:
    block = bytes(snappy.compress_raw(data))
    return b"\x82SNAPPY\0" + struct.pack(">iii", 1, 1, len(block)) + block


def lz4_frame(data: bytes) -> bytes:
    block = bytes(lz4.compress_block(data, store_size=False))
    return b"\x04\x22\x4d\x18\x60\x40\x82" + struct.pack("<I", len(block)) + block + bytes(4)


def zstd_frame(data: bytes) -> bytes:
    return bytes(zstd.compress(data))


PACKERS = {"gzip": gzip, "snappy": snappy_stream, "lz4": lz4_frame, "zstd": zstd_frame}


def framing_cases() -> Iterator[Case]:
    good = batch()
    yield Case("sound", good)
    for cut in (0, 1, 11, 12, 16, 17, 60, 61, len(good) - 1):
        yield Case(f"cut-{cut}", good[:cut])
    for length in (-1, 0, 13, 14, 15, 48, 49, 2**31 - 1, len(good) - 13, len(good) - 11):
        changed = bytearray(good)
        struct.pack_into(">i", changed, 8, length)
        yield Case(f"length-{length}", bytes(changed))
    for magic in (-1, 0, 1, 3, 127):
        yield Case(f"magic-{magic}", with_field(good, "magic", "b", magic))
    yield Case("two-batches", good + good)
    yield Case("batch-and-part", good + good[:-1])
    for name, tail in (("3", b"abc"), ("11", bytes(11)), ("12", bytes(12)), ("20", bytes(20)), ("ff", b"\xff" * 20)):
        yield Case(f"bytes-behind-{name}", good + tail)
    yield Case("crc-wrong", good[:-1] + b"\x7f")
    yield Case("too-large", batch(40), "small")
    yield Case("fits-small", batch(3), "small")
    yield Case("too-large-and-crc-wrong", batch(40)[:-1] + b"\x7f", "small")


def header_cases() -> Iterator[Case]:
    good = batch()
    fields = [("base_offset", "q", (1, -1, 2**63 - 1)), ("last_offset_delta", "i", (-1, 0, 1, 3, 2**31 - 1, -(2**31)))]
    fields += [("count", "i", (-1, 0, 1, 2, 4, 2**31 - 1)), ("attributes", "h", (5, 6, 7, 0x20, 0x40, 0x80, 0x100, -1))]
    fields += [("max_timestamp", "q", (-1, 0, OLD_MS, OLD_MS + 3, FUTURE_MS, 2**63 - 1, -(2**63)))]
    fields += [("base_timestamp", "q", (-1, -5, 0, FUTURE_MS, 2**63 - 1, -(2**63)))]
    fields += [("base_sequence", "i", (0, 7, -2))]
    for name, layout, values in fields:
        for value in values:
            yield Case(f"{name}-{value}", with_field(good, name, layout, value))
            if name.endswith("timestamp"):
                yield Case(f"append-time-{name}-{value}", with_field(good, name, layout, value), "append-time")
    yield Case("sequence-missing", encode_batch(records(), producer_id=4000, producer_epoch=0))
    yield Case("append-time-flag", with_field(good, "attributes", "h", 8))
    yield Case("append-time-flag-no-time", with_field(with_field(good, "attributes", "h", 8), "max_timestamp", "q", -1))
    yield Case("append-time-flag-there", with_field(good, "attributes", "h", 8), "append-time")
    for topic in TOPICS:
        yield Case(f"sound-{topic}", batch(2), topic)
        yield Case(f"no-keys-{topic}", encode_batch(records(5, key=None)), topic)
        yield Case(f"too-new-{topic}", encode_batch(records(5, timestamp=FUTURE_MS)), topic)
        yield Case(f"no-time-{topic}", encode_batch([Record(key=b"k", value=b"v")]), topic)
    one_bad = [
        Record(timestamp=OLD_MS, key=b"k"),
        Record(timestamp=OLD_MS, value=b"v"),
        Record(timestamp=FUTURE_MS, key=b"k"),
    ]
    yield Case("one-without-key", encode_batch(one_bad[:2]), "compacted")
    yield Case("one-without-key-one-too-new", encode_batch(one_bad), "compacted")


def record_cases() -> Iterator[Case]:
    one = batch(1)
    for name, content in STRUCTURES.items():
        yield Case(f"record-{name}", with_payload(one, content, 0))
        for codec, pack in PACKERS.items():
            yield Case(f"record-{name}-{codec}", with_payload(one, pack(content), CODECS[codec]))
    three = batch()
    for deltas in ((0, 0, 0), (0, 2, 4), (2, 1, 0)):
        content = b"".join(raw_record(body(delta)) for delta in deltas)
        yield Case(f"deltas-{deltas}", with_payload(three, content, 0))
        yield Case(f"deltas-{deltas}-gzip", with_payload(three, gzip(content), 1))


def codec_cases() -> Iterator[Case]:
    content = batch()[AT["records"] :]
    for codec, number in CODECS.items():
        for version in (3, 6, 7, 9):
            yield Case(f"codec-{codec}-v{version}", encode_batch(records(), codec=number), version=version)
        for topic in ("append-time", "compacted", "recent", "gzip"):
            yield Case(f"codec-{codec}-{topic}", encode_batch(records(key=None), codec=number), topic)
    for codec, pack in PACKERS.items():
        good = pack(content)
        for cut in (0, 1, 5, len(good) // 2, len(good) - 5, len(good) - 1):
            yield Case(f"{codec}-cut-{cut}", with_payload(batch(), good[:cut], CODECS[codec]))
        for at in range(0, len(good), 7):
            broken = bytearray(good)
            broken[at] ^= 0x55
            yield Case(f"{codec}-flip-{at}", with_payload(batch(), bytes(broken), CODECS[codec]))
        yield Case(f"{codec}-bytes-behind", with_payload(batch(), good + b"garbage behind", CODECS[codec]))
        halves = pack(content[:20]) + pack(content[20:])
        yield Case(f"{codec}-two-frames", with_payload(batch(), halves, CODECS[codec]))
        yield Case(f"{codec}-labelled-plain", with_payload(batch(), content, CODECS[codec]))
    yield Case("snappy-raw", with_payload(batch(), bytes(snappy.compress_raw(content)), 2))
    yield Case("lz4-linked-blocks", with_payload(batch(), bytes(lz4.compress(content)), 3))


def mutation_cases() -> Iterator[Case]:
    """Each byte after the length of a small batch, changed in two ways, with a matching checksum."""
    good = batch(2)
    for at in [*range(12, 17), *range(21, len(good))]:
        for change in (0x01, 0x80):
            changed = bytearray(good)
            changed[at] ^= change
            yield Case(f"byte-{at}-{change:02x}", fixed(changed))


def cases() -> list[Case]:
    made = [*framing_cases(), *header_cases(), *record_cases(), *codec_cases(), *mutation_cases()]
    assert len({case.name for case in made}) == len(made)
    return made
