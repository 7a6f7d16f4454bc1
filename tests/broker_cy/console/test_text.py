"""How the console shows numbers, times and foreign bytes."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_cy.admin.lag import Trend
from broker_cy.client import text
from broker_cy.console import payload
from broker_cy.console.payload import Format
from broker_cy.console.rows import catch_up_text


@given(st.text())
def test_foreign_text_never_steers_the_terminal(foreign: str) -> None:
    """If this fails, a topic name or a record moves the cursor, changes colours, or reverses the text that follows."""
    shown = text.clean(foreign)
    assert "\n" not in shown
    for sign in shown + text.clean_lines(foreign).replace("\n", ""):
        assert unicodedata.category(sign) not in ("Cc", "Cs", "Zl", "Zp"), repr(sign)
        assert unicodedata.bidirectional(sign) not in ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")


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
    ("shown", "expected"),
    [
        (text.count(9_223_372_036_854_775_807), "9,223,372,036,854,775,807"),
        (text.count(None), "-"),
        (text.short(1_234), "1.2k"),
        (text.short(0), "0"),
        (text.short(999_999), "1.0M"),
        (text.short(-1_500), "-1.5k"),
        (text.size(1_048_576), "1.0 MiB"),
        (text.size(1_048_575), "1.0 MiB"),
        (text.size(512), "512 B"),
        (text.duration(350), "350 ms"),
        (text.duration(4_200), "4.2 s"),
        (text.duration(192_000), "3 m 12 s"),
        (text.duration(7_200_000), "2 h"),
        (text.duration(-5_000), "-5.0 s"),
        (text.micros(850), "850 µs"),
        (text.micros(1_250), "1.25 ms"),
        (text.when(1_700_000_000_123, utc=True), "2023-11-14 22:13:20.123Z"),
        (text.when(-1), "-"),
        (text.when(10**18), "1000000000000000000"),
    ],
)
def test_numbers(shown: str, expected: str) -> None:
    """If this fails, an offset is rounded, or a duration cannot be read."""
    assert shown == expected


@pytest.mark.parametrize(
    ("trend", "lag", "expected"),
    [
        (Trend(30, 10, 12.0), 100, "12.0 s"),
        (Trend(30, 10, None), 100, "≥ 5.0 s"),
        (Trend(10, 30, None), 100, "never"),
        (Trend(10, 10, None), 100, "never"),
        (Trend(30, 10, None), None, "never"),
        (Trend(30, 10, 0.0), 0, "-"),
        (None, 100, "-"),
    ],
)
def test_a_lag_that_falls_is_gone_at_some_time(trend: Trend | None, lag: int | None, expected: str) -> None:
    """If this fails, a group whose lag falls has the note that it is never gone."""
    assert catch_up_text(trend, lag) == expected
