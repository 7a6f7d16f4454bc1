"""Strings of requests; the tests in tests/compat check with Kafka's responses that they are read as in Kafka."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_cy.core.errors import WireError
from broker_cy.core.text import STRING_BYTES_MAX, java_text


@given(st.text())
def test_what_is_utf8_is_read_as_it_is(text: str) -> None:
    """If this fails, group ids with letters that are not ASCII would not be found again."""
    assert java_text(text.encode()) == text


@given(st.lists(st.sampled_from([b"\xed", b"\xa0", b"\xbf", b"\x80", b"\xe2", b"\xf0\x9f", b"\xff", b"a"])))
def test_whatever_is_read_can_be_sent(pieces: list[bytes]) -> None:
    """If this fails, a response that contains the string could not be written."""
    text = java_text(b"".join(pieces))
    assert text.encode().decode() == text
    assert text.count("a") == pieces.count(b"a")


def test_a_string_that_would_be_too_long_to_send() -> None:
    """If this fails, a string of invalid bytes takes three times its size when it is sent again, or logged."""
    fits = STRING_BYTES_MAX // 3
    assert java_text(b"\xff" * fits) == "�" * fits
    with pytest.raises(WireError, match="invalid UTF-8, and 32769 bytes with U"):
        java_text(b"\xff" * (fits + 1))
