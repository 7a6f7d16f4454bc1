"""If these fail, a client can make the broker read bytes that it did not send, or numbers are sent that no client can
read.
"""

import struct
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_cy.core.cursor import Cursor
from broker_cy.core.errors import Truncated, WireError
from broker_cy.core.writer import Writer

FIXED = {"i8": ">b", "i16": ">h", "i32": ">i", "i64": ">q", "u16": ">H", "u32": ">I", "f64": ">d"}
BITS = {"varint": 32, "varlong": 64}


def signed(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)


def unsigned(bits: int) -> st.SearchStrategy[int]:
    return st.integers(0, (1 << bits) - 1)


NUMBERS = st.one_of(
    *(st.tuples(st.just(f"i{bits}"), signed(bits)) for bits in (8, 16, 32, 64)),
    *(st.tuples(st.just(f"u{bits}"), unsigned(bits)) for bits in (16, 32)),
    st.tuples(st.just("f64"), st.floats(allow_nan=False)),
    st.tuples(st.just("uvarint"), unsigned(32)),
    st.tuples(st.just("varint"), signed(32)),
    st.tuples(st.just("varlong"), signed(64)),
)


def leb128(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def model(kind: str, value: Any) -> bytes:
    """Return the same bytes, computed in the slow and obvious way."""
    if kind in FIXED:
        return struct.pack(FIXED[kind], value)
    return leb128(value if kind == "uvarint" else (value << 1) ^ (value >> BITS[kind] - 1))


@given(st.lists(NUMBERS, max_size=20))
def test_numbers_are_written_as_the_model_writes_them_and_read_back(numbers: list[tuple[str, Any]]) -> None:
    writer = Writer(1)
    for kind, value in numbers:
        getattr(writer, f"write_{kind}")(value)
    data = writer.getvalue()
    assert data == b"".join(model(kind, value) for kind, value in numbers)
    cursor = Cursor(data)
    assert [getattr(cursor, f"read_{kind}")() for kind, _ in numbers] == [value for _, value in numbers]
    assert (cursor.left, cursor.at) == (0, len(data))


@given(NUMBERS)
def test_a_number_cut_anywhere_is_truncated_and_the_cursor_stays(number: tuple[str, Any]) -> None:
    kind, value = number
    whole = model(kind, value)
    for size in range(len(whole)):
        # The byte after the view is mapped, so reading past the end would not crash by itself.
        cursor = Cursor(memoryview(whole)[:size])
        with pytest.raises(Truncated):
            getattr(cursor, f"read_{kind}")()
        assert cursor.at == 0


@given(st.sampled_from(["uvarint", "varint", "varlong"]), st.binary(max_size=12))
def test_any_bytes_are_a_varint_or_an_error(kind: str, data: bytes) -> None:
    size_max, bits = (10, 64) if kind == "varlong" else (5, 32)
    number, size = 0, 0
    for size, byte in enumerate(data, 1):
        number |= (byte & 0x7F) << 7 * (size - 1)
        if byte < 0x80 or size == size_max:
            break
    cursor = Cursor(data)
    read: Callable[[], int] = getattr(cursor, f"read_{kind}")
    complete = size > 0 and data[size - 1] < 0x80
    if complete and number < 1 << bits:
        assert read() == (number if kind == "uvarint" else (number >> 1) ^ -(number & 1))
        assert cursor.at == size
    else:
        with pytest.raises(WireError):
            read()
        assert cursor.at == 0


@pytest.mark.parametrize(("kind", "data"), [("uvarint", b"\xff\xff\xff\xff\x10"), ("varlong", b"\xff" * 9 + b"\x02")])
def test_bits_that_do_not_fit_are_refused(kind: str, data: bytes) -> None:
    with pytest.raises(WireError, match="has more than"):
        getattr(Cursor(data), f"read_{kind}")()


def test_take_checks_both_ends() -> None:
    cursor = Cursor(b"abc")
    with pytest.raises(WireError, match="negative length -1"):
        cursor.read_bytes(-1)
    with pytest.raises(Truncated, match="4 bytes are needed at byte 0, but 3 are left"):
        cursor.read_bytes(4)
    with pytest.raises(Truncated):
        cursor.read_bytes(2**63 - 1)
    assert cursor.read_bytes(3) == b"abc"
    assert cursor.read_bytes(0) == b""


@pytest.mark.parametrize("empty", [b"", bytearray(), memoryview(b"")])
def test_an_empty_buffer_can_be_read(empty: Any) -> None:
    assert Cursor(empty).read_bytes(0) == b""
    with pytest.raises(Truncated):
        Cursor(empty).read_i8()


def test_the_buffer_cannot_move_while_a_cursor_reads_it() -> None:
    data = bytearray(b"abcd")
    cursor = Cursor(data)
    with pytest.raises(BufferError):
        data.extend(b"e" * 1000)
    assert cursor.read_i32() == 0x61626364
    del cursor
    data.extend(b"e")


@given(st.lists(st.binary(max_size=300), max_size=10))
def test_the_writer_grows_and_keeps_what_it_has(parts: list[bytes]) -> None:
    writer = Writer(1)
    for part in parts:
        writer.write_bytes(memoryview(part))
    assert writer.getvalue() == b"".join(parts)
    assert len(writer) == sum(map(len, parts))


def test_patch_and_truncate_stay_inside_what_was_written() -> None:
    writer = Writer()
    writer.write_i32(0)
    writer.write_i16(7)
    writer.patch(0, -2)
    assert writer.getvalue() == b"\xff\xff\xff\xfe\x00\x07"
    for at in (-1, 3, 6):
        with pytest.raises(IndexError):
            writer.patch(at, 1)
    writer.truncate(4)
    assert writer.getvalue() == b"\xff\xff\xff\xfe"
    for size in (-1, 5):
        with pytest.raises(IndexError):
            writer.truncate(size)


@pytest.mark.parametrize(("kind", "value"), [("i8", 128), ("i16", -32769), ("i32", 2**31), ("u32", -1), ("i64", 2**63)])
def test_a_number_that_does_not_fit_is_refused(kind: str, value: int) -> None:
    with pytest.raises(OverflowError):
        getattr(Writer(), f"write_{kind}")(value)
