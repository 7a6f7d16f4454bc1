"""The text of records and of lag in the consoles."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_cy.admin.lag import Trend
from broker_cy.console import payload
from broker_cy.console.payload import Format
from broker_cy.console.rows import catch_up_text


@given(st.binary(max_size=3_000), st.sampled_from(Format))
def test_any_bytes_can_be_shown_in_any_format(data: bytes, shown: Format) -> None:
    """If this fails, a malformed record breaks the screen."""
    for sign in payload.line(data, shown) + payload.detail(data, shown).replace("\n", ""):
        assert unicodedata.category(sign) not in ("Cc", "Cs"), repr(sign)


def test_large_values_are_cut_with_their_size() -> None:
    """If this fails, 20 MB in one cell block the screen, or users do not see that something is missing."""
    data = b"x" * 20_000_000
    assert len(payload.line(data)) < 500
    assert payload.line(data).endswith("... 20,000,000 B")
    assert "more bytes of 20,000,000" in payload.detail(data)
    assert "more bytes of 20,000,000" in payload.detail(data, Format.HEX)
    assert len(payload.detail(data)) < 100_000


def test_formats() -> None:
    """If this fails, JSON is shown as unreadable characters, or bytes as text."""
    assert payload.detail(b'{"a":[1,9007199254740993]}') == '{\n  "a": [\n    1,\n    9007199254740993\n  ]\n}'
    assert payload.detail(b"{broken", Format.JSON).startswith("not JSON: ")
    assert payload.line(None) == "null"
    assert payload.line("Grüße".encode()) == "Grüße"
    assert payload.line(b"\xff\xfe") == "ff fe"
    # Lines of 16 bytes are folded in a window of 80 columns.
    assert max(map(len, payload.detail(bytes(range(99)), Format.HEX, columns=70).splitlines())) < 70
    assert payload.hex_dump(b"Kafka\x00\xff") == "00000000  4b 61 66 6b 61 00 ff" + " " * 30 + "|Kafka..|"


def test_a_character_that_a_cut_goes_through_does_not_make_it_binary() -> None:
    """If this fails, a long text in another script is shown as hexadecimal digits."""
    data = ("ж" * payload.ROW_BYTES_MAX).encode()
    for shift in range(3):
        assert payload.is_text(b"x" * shift + data)


@pytest.mark.parametrize(
    ("trend", "lag", "expected"),
    [
        (Trend(30, 10, 12.0), 100, "12.0 s"),
        (Trend(30, 10, None), 100, "≥ 5.0 s"),
        (Trend(10, 30, None), 100, "never"),
        (Trend(10, 10, None), 100, "never"),
        (Trend(10.1 + 10.2, 30 * 0.1 + 17.3, None), 100, "never"),
        (Trend(30, 10, None), None, "never"),
        (Trend(30, 10, 0.0), 0, "-"),
        (None, 100, "-"),
    ],
)
def test_a_lag_that_falls_is_gone_at_some_time(trend: Trend | None, lag: int | None, expected: str) -> None:
    """If this fails, a group whose lag falls has the note that it is never gone."""
    assert catch_up_text(trend, lag) == expected
