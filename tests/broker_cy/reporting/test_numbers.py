"""The text of numbers, sizes, durations and times."""

from __future__ import annotations

import pytest

from broker_cy.reporting import numbers


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (numbers.count(9_223_372_036_854_775_807), "9,223,372,036,854,775,807"),
        (numbers.count(None), "-"),
        (numbers.short(1_234), "1.2k"),
        (numbers.short(0), "0"),
        (numbers.short(999_999), "1.0M"),
        (numbers.short(-1_500), "-1.5k"),
        (numbers.fixed(1_234.5, 2), "1,234.50"),
        (numbers.fixed(None, 2), "-"),
        (numbers.precise(12.345), "12.3"),
        (numbers.precise(0.001234), "0.00123"),
        (numbers.precise(12_345.6), "12,346"),
        (numbers.precise(0), "0"),
        (numbers.share(0.08333), "8.33%"),
        (numbers.share(0.00001), "below 0.01%"),
        (numbers.share(0), "0%"),
        (numbers.share(None), "-"),
        (numbers.minute(1_700_000_000_123), "2023-11-14 22:13"),
        (numbers.size_rate(1_536), "1.5 KiB/s"),
        (numbers.size_rate(None), "-"),
        (numbers.size(-2_048), "-2.0 KiB"),
        (numbers.size(1 << 60), "1024 PiB"),
        (numbers.size(1_048_576), "1.0 MiB"),
        (numbers.size(1_048_575), "1.0 MiB"),
        (numbers.size(512), "512 B"),
        (numbers.duration(350), "350 ms"),
        (numbers.duration(4_200), "4.2 s"),
        (numbers.duration(192_000), "3 m 12 s"),
        (numbers.duration(7_200_000), "2 h"),
        (numbers.duration(-5_000), "-5.0 s"),
        (numbers.micros(850), "850 µs"),
        (numbers.micros(1_250), "1.25 ms"),
        (numbers.when(1_700_000_000_123, utc=True), "2023-11-14 22:13:20.123Z"),
        (numbers.offsets_text([(4, 4)]), "offset 4"),
        (numbers.offsets_text([(40, 41), (44, 44)]), "offsets 40 to 41, 44"),
        (numbers.offsets_text([(1, 1), (3, 3), (5, 9)], most=2), "offsets 1, 3, ..."),
        (numbers.when(-1), "-"),
        (numbers.when(10**18), "1000000000000000000"),
    ],
)
def test_numbers(shown: str, expected: str) -> None:
    """If this fails, an offset is rounded, or a duration cannot be read."""
    assert shown == expected
