"""Counts and lengths in requests and answers that announce more than follows (CVE-2026-111108: arrays, CVE-2026-111115:
tagged fields), and requests that consist of as many small elements as possible. Produce and Fetch have readers of their
own: tests/compat/test_announced_sizes.py and the fuzz targets produce_view and fetch_view.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator

import pytest

from broker_cy.core.errors import WireError
from broker_cy.schemas import tables
from broker_cy.wire import codec, messages
from broker_cy.wire.codec import Message
from broker_cy.wire.frame import ApiKey, api_versions, request_class, response_class
from tests.broker_cy.wire.random_messages import Generator
from tests.support.raw_wire import uvarint

# 2,147,483,647 elements or bytes as an int32 and as a compact length, and 65,535.
ANNOUNCED = (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x07", b"\xff\xff\x03")
# An error with its text; and for each byte that was really received.
REFUSAL_BYTES = 32_768
BYTES_FOR_BYTE = 128
FULL_BYTES = 6_000
APIS = [key for key in ApiKey if api_versions(key)[1] >= api_versions(key)[0]]


@pytest.fixture(autouse=True)
def traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


def taken_bytes(cls: type[Message], version: int, body: bytes) -> int:
    """The most memory that this takes while it is read."""
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    try:
        codec.decode_request(cls, version, body)
    except WireError:
        pass
    return tracemalloc.get_traced_memory()[1] - before


def planted(body: bytes) -> Iterator[bytes]:
    """`body` with each number announced at each place where a count or a length may be."""
    for at in range(len(body)):
        for number in ANNOUNCED:
            yield body[:at] + number + body[at + len(number) :]


@pytest.mark.parametrize("key", APIS, ids=lambda key: key.name)
def test_what_is_only_announced_takes_no_memory(key: ApiKey) -> None:
    """If this fails, some bytes of a client, or of a server that our clients ask, take gigabytes."""
    low, high = api_versions(key)
    for cls in (request_class(key), response_class(key)):
        for version in {low, high}:
            message = Generator((key, version), elements_max=1).message(cls.__name__, version)
            body = codec.encode(message, version)[:160]
            taken_bytes(cls, version, body)
            for each in planted(body):
                taken = taken_bytes(cls, version, each)
                assert taken < REFUSAL_BYTES + BYTES_FOR_BYTE * len(each), f"{cls.__name__} v{version}: {each.hex()}"


# --- the largest number of the smallest elements

SIZES = {"int8": 1, "bool": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4, "int64": 8, "float64": 8, "uuid": 16}


class Filled:
    """Makes bodies in which one array has as many elements as fit, and nothing else has any."""

    def __init__(self, spec: tables.MessageSpec, version: int) -> None:
        self.spec = spec
        self.version = version
        self.is_flexible = version in spec.flexible

    def arrays(self, struct: tables.StructSpec) -> Iterator[tuple[str, ...]]:
        """The paths of all arrays of the body."""
        for field in struct.fields:
            if self.version not in field.versions or self.version in field.tagged:
                continue
            if field.is_array:
                yield (field.name,)
            if field.type in self.spec.structs:
                for path in self.arrays(self.spec.structs[field.type]):
                    yield (field.name, *path)

    def body(self, struct: tables.StructSpec, path: tuple[str, ...] = ()) -> bytes:
        out = b""
        for field in struct.fields:
            if self.version not in field.versions or self.version in field.tagged:
                continue
            if path and field.name == path[0]:
                inner = self.body(self.spec.structs[field.type], path[1:]) if path[1:] else self.smallest(field)
                count = 1 if path[1:] else FULL_BYTES // len(inner)
                # A structure that may be null has a byte in front, which is negative for null.
                absent = b"" if self.version not in field.nullable else b"\x01"
                out += (self.count(count) if field.is_array else absent) + inner * count
            else:
                out += self.count(0) if field.is_array else self.smallest(field)
        return out + (b"\0" if self.is_flexible else b"")

    def count(self, number: int) -> bytes:
        return uvarint(number + 1) if self.is_flexible else number.to_bytes(4)

    def smallest(self, field: tables.FieldSpec) -> bytes:
        if field.type in SIZES:
            return bytes(SIZES[field.type])
        if field.type in self.spec.structs:
            if self.version in field.nullable and not field.is_array:
                return b"\xff"
            return self.body(self.spec.structs[field.type])
        return b"\x01" if self.is_flexible else bytes(2 if field.type == "string" else 4)


def test_each_byte_of_a_request_takes_a_bounded_number() -> None:
    """If this fails, a request of the allowed size takes many times as much memory. ELEMENTS_MAX is the other bound."""
    arrays = 0
    for key in APIS:
        cls = request_class(key)
        spec = tables.load(cls.__name__)
        for version in set(api_versions(key)):
            filled = Filled(spec, version)
            for path in filled.arrays(spec.root):
                body = filled.body(spec.root, path)
                assert codec.decode_request(cls, version, body) is not None
                assert taken_bytes(cls, version, body) < BYTES_FOR_BYTE * len(body), f"{cls.__name__} v{version} {path}"
                arrays += 1
    assert arrays > 150


def test_each_tagged_field_takes_a_bounded_number_of_bytes() -> None:
    """If this fails, fields that the broker does not know take many times their size (CVE-2026-111115)."""
    tags = uvarint(1_000) + b"".join(uvarint(number + 9) + b"\0" for number in range(1_000))
    of_one = b"\x01\x01" + tags
    body = b"\0" + uvarint(11) + of_one * 10 + bytes(4) + b"\0"
    cls = messages.ElectLeadersRequest
    found = codec.decode_request(cls, 2, body)
    assert found.topic_partitions is not None
    assert len(found.topic_partitions) == 10
    assert taken_bytes(cls, 2, body) < BYTES_FOR_BYTE * len(body)
    many = b"\0" + uvarint(2) + b"\x01\x01" + uvarint(1_001) + tags[2:] + b"\x7f\0" + bytes(4) + b"\0"
    with pytest.raises(WireError, match="1001 tagged fields; a structure of a request may have 1000"):
        codec.decode_request(cls, 2, many)
