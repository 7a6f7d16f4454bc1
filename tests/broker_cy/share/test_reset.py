"""share.auto.offset.reset: where a group begins a partition."""

from __future__ import annotations

import pytest

from broker_cy.share.reset import EARLIEST, LATEST, duration_ms, timestamp


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("latest", LATEST),
        ("earliest", EARLIEST),
        ("by_duration:PT1H", 1_000_000_000 - 3_600_000),
        ("by_duration:P999999D", 0),
    ],
)
def test_a_group_begins_where_its_policy_says(policy: str, expected: int) -> None:
    """If this fails, a new group skips records that it should read, or reads old ones."""
    assert timestamp(policy, 1_000_000_000) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("P2D", 172_800_000), ("PT1.5S", 1_500), ("P1DT2H3M4S", 93_784_000), ("pt0.0009s", 0), ("PT10M", 600_000)],
)
def test_durations_are_javas(text: str, expected: int) -> None:
    """If this fails, a group begins at another time than on Kafka."""
    assert duration_ms(text) == expected


def test_an_invalid_duration_is_refused() -> None:
    """If this fails, a typing error in the setting makes a group begin anywhere."""
    with pytest.raises(ValueError, match="invalid duration '1h'"):
        duration_ms("1h")
