"""share.auto.offset.reset: where a group begins a partition."""

from __future__ import annotations

import pytest

from broker_cy.share.reset import EARLIEST, LATEST, timestamp


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
