"""Layouts of keys; the expected bytes are written by hand from Kafka's schemas."""

from __future__ import annotations

import random
from typing import Any

import pytest

from broker_streams.kernel.stores import keys


def test_layouts() -> None:
    """If this fails, changelogs of Kafka Streams cannot be restored, nor ours by Kafka Streams."""
    assert keys.window_key(b"k", 258) == b"k" + bytes.fromhex("0000000000000102 00000000")
    assert keys.window_key(b"", -1, 7) == bytes.fromhex("ffffffffffffffff 00000007")
    assert keys.session_key(b"k", 1, 2) == b"k" + bytes.fromhex("0000000000000002 0000000000000001")
    assert keys.time_first_window_key(b"k", 3, 4) == bytes.fromhex("00 0000000000000003 6b 00000004")
    assert keys.key_first_window_key(b"k", 3, 4) == bytes.fromhex("01 6b 0000000000000003 00000004")
    assert keys.time_first_session_key(b"k", 1, 2) == bytes.fromhex("00 0000000000000002 0000000000000001 6b")
    assert keys.key_first_session_key(b"k", 1, 2) == bytes.fromhex("01 6b 0000000000000002 0000000000000001")
    assert keys.join_side_key(b"k", 5, True) == bytes.fromhex("0000000000000005 01 6b")
    assert keys.join_side_key(b"k", 5, False) == bytes.fromhex("0000000000000005 00 6b")


def test_parts_are_the_inverse() -> None:
    """If this fails, rows come back under other keys or windows."""
    draw = random.Random(1)
    for _ in range(200):
        key = draw.randbytes(draw.randrange(5))
        one, two = draw.randrange(1 << 60), draw.randrange(1 << 60)
        assert keys.window_parts(keys.window_key(key, one, 9)) == (key, one, 9)
        assert keys.session_parts(keys.session_key(key, one, two)) == (key, one, two)
        assert keys.time_first_window_parts(keys.time_first_window_key(key, one, 9)) == (key, one, 9)
        assert keys.time_first_session_parts(keys.time_first_session_key(key, one, two)) == (key, one, two)
        assert keys.join_side_parts(keys.join_side_key(key, one, False)) == (key, one, False)


def test_bytes_that_are_no_keys_are_refused() -> None:
    """If this fails, a damaged row of a file reads memory behind it, or ends the process."""
    calls = (keys.window_parts, keys.session_parts, keys.time_first_window_parts, keys.time_first_session_parts)
    for call, least in zip(calls, (12, 16, 13, 17), strict=True):
        assert call(bytes(least))[0] == b""
        with pytest.raises(ValueError, match=f"{least - 1} bytes; {least} are the least"):
            call(bytes(least - 1))
    none: Any = None
    for make in (keys.window_key, keys.time_first_window_key):
        with pytest.raises(TypeError):
            make(none, 1)
    for of_session in (keys.session_key, keys.time_first_session_key, keys.key_first_session_key):
        with pytest.raises(TypeError):
            of_session(none, 1, 2)
        with pytest.raises(OverflowError):
            of_session(b"k", 1 << 63, 2)
    assert keys.window_end(keys.MAX_LONG - 1, 5) == keys.MAX_LONG
    assert [keys.next_prefix(each) for each in (b"a\xff", b"\xff", b"", b"ab")] == [b"b", None, None, b"ac"]


def test_a_segment_is_rounded_as_in_java() -> None:
    """If this fails, rows before the first segment expire at another time than Kafka's."""
    assert [keys.divide(time, 10) for time in (-11, -10, -9, -1, 0, 9, 10)] == [-1, -1, 0, 0, 0, 0, 1]


def test_bounds_of_ranges_hold_all_keys_between() -> None:
    """If this fails, a range of keys misses windows of keys with another length."""
    draw = random.Random(2)
    for _ in range(500):
        low, key, high = sorted(draw.randbytes(draw.randrange(1, 5)).replace(b"\0", b"0") for _ in range(3))
        time = draw.randrange(1 << draw.choice([41, 62]))
        to_ms = time + draw.choice([0, draw.randrange(1 << 61)])
        assert keys.lowest_window_key(low) <= keys.window_key(key, time) <= keys.highest_window_key(high, to_ms)
        end_ms = time + draw.randrange(1 << 61)
        assert keys.lowest_session_key(low) <= keys.session_key(key, time, end_ms)
        assert keys.session_key(key, time, end_ms) <= keys.highest_session_key(high, to_ms)


def test_the_end_of_a_window_and_the_next_prefix_stop() -> None:
    """If this fails, unlimited windows end before they begin, or a scan of a prefix misses rows."""
    assert keys.window_end(5, keys.MAX_LONG) == keys.MAX_LONG
    assert keys.window_end(5, 10) == 15
    assert keys.next_prefix(b"a\xff\xff") == b"b"
    assert keys.next_prefix(b"\xff") is None
