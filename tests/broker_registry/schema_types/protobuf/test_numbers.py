"""Numbers of options in normalized texts: other digits would be another text, and another id."""

from __future__ import annotations

import pytest

from broker_registry.schema_types.protobuf.numbers import formatted


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # Answers of Confluent's registry, as those of the corpus (numbers.proto).
        *(("1.23456", "1.235"), ("0.1", "0.1"), ("1.0005", "1"), ("2.0005", "2"), ("2.0015", "2.001")),
        *(("0.00049", "0"), ("1e3", "1000"), ("1.5e-3", "0.002"), ("123456789.98765", "123456789.988")),
        *(("0x10", "16"), ("017", "15"), ("100", "100"), ("-0.0", "-0"), ("-7", "-7"), ("-0x1F", "-31")),
        *(("12345678901234567890", "12345678901234567890"), ("1.50f", "1.5"), ("2d", "2"), ("5L", "5"), (".5", "0.5")),
        *(("1e38", "99999996802856920000000000000000000000"), ("1e39f", "1" + "0" * 39), ("-0.0001", "-0")),
    ],
)
def test_a_number_has_the_digits_that_java_writes(text: str, expected: str) -> None:
    assert formatted(text) == expected


@pytest.mark.parametrize(
    "text", ["-inf", "nan", "-", "1.2.3", "09", "1e", "e5", "--1", "1_0", "0x1fL", "9" * 500, "1e99999999"]
)
def test_another_text_stays_as_it_is(text: str) -> None:
    assert formatted(text) == text
