"""The place of the stamp in a verified record."""

from __future__ import annotations

import pytest

from loadgen.scenario.model import STAMP_BYTES
from loadgen.verify.prefix import CHANGING, CHANGING_AT, HEADER, PREFIX, PREFIX_BYTES, Stamp, stamp_of

STAMP = Stamp(0xFEDCBA9876543210, (1 << 63) + 5, 7, 123_456_789_012)
PACKED = PREFIX.pack(*STAMP)


def test_the_stamp_is_before_the_value_or_in_a_header() -> None:
    """If this fails, verification takes records of the run for foreign ones, and reports them as lost."""
    assert stamp_of(PACKED) == stamp_of(memoryview(PACKED + b"rest")) == STAMP
    assert stamp_of(b'{"a":1}', [("other", b"x"), (HEADER, memoryview(PACKED))]) == STAMP
    assert stamp_of(None, [(HEADER, PACKED)]) == STAMP
    foreign = PREFIX.pack(1, 2, 3, 4)
    assert stamp_of(foreign, [(HEADER, PACKED)]) == STAMP


@pytest.mark.parametrize("value", [None, b"", PACKED[:-1]])
def test_a_record_without_a_stamp(value: bytes | None) -> None:
    """If this fails, a foreign record ends the verification with an error."""
    assert stamp_of(value) is None
    assert stamp_of(value, [(HEADER, None), (HEADER, PACKED[:-1]), ("x", PACKED)]) is None


def test_the_layout_is_fixed() -> None:
    """If this fails, engines that write only the changing part write it to the wrong place."""
    assert PREFIX_BYTES == STAMP_BYTES == 32
    assert PACKED[CHANGING_AT:] == CHANGING.pack(STAMP.sequence, STAMP.due_ns)
