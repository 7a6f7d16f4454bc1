"""Literals of InsertHeader; tests/broker_mirror/test_like_mirror_maker.py compares random ones with Kafka's."""

from __future__ import annotations

import pytest

from broker_mirror.transforms.literals import Literal, parsed


@pytest.mark.parametrize(
    ("text", "expected", "written"),
    [
        ("eu-west-1", Literal("STRING", "eu-west-1"), "eu-west-1"),
        ("", Literal("STRING", ""), ""),
        ("true", Literal("BOOLEAN", True), "true"),
        ("TRUE", Literal("STRING", "TRUE"), "TRUE"),
        ("127", Literal("INT8", 127), "127"),
        ("-129", Literal("INT16", -129), "-129"),
        ("007", Literal("INT8", 7), "7"),
        ("1.0", Literal("INT8", 1), "1"),
        ("1e3", Literal("INT16", 1000), "1000"),
        ("0.1", Literal("FLOAT32", 0.10000000149011612), "0.1"),
        ("1e39", Literal("FLOAT64", 1e39), "1.0E39"),
        ("10,20", Literal("INT8", 10), "10"),
        ("2019-02-30", Literal("INT32", 1_551_484_800_000, "Date"), "2019-03-02"),
        ("14:34:54.346Z", Literal("INT32", 52_494_346, "Time"), "14:34:54.346Z"),
        ("1969-08-23", Literal("INT32", -11_318_400_000, "Date"), "00:00:00.000Z"),
        ("[1,", Literal("STRING", "[1,"), "[1,"),
    ],
)
def test_a_literal_has_kafkas_type_and_text(text: str, expected: Literal, written: str) -> None:
    """If this fails, a header has another value than MirrorMaker 2 gives it."""
    found = parsed(text)
    assert found == expected
    assert found is not None
    assert found.text() == written


def test_null_is_no_value() -> None:
    """If this fails, the header gets the text null."""
    assert parsed("null") is None


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("[1, 2.5]", "[1.0,2.5]"),
        ('[1,"a"]', '[1,"a"]'),
        ('["a\\"b"]', '["a\\\\\\"b"]'),
        ("[1,null]", "[1,null]"),
        ("[1,2019-08-23]", "[1970-01-02,2019-08-23]"),
        ('{"a":1,"b":[true]}', '{"a":1,"b":[true]}'),
        ('{ "a" : 1 }', '{"a":1}'),
        ("{}", "{}"),
    ],
)
def test_arrays_and_maps_are_written_again(text: str, written: str) -> None:
    """If this fails, a header has another text than MirrorMaker 2 gives it."""
    found = parsed(text)
    assert found is not None
    assert found.text() == written
