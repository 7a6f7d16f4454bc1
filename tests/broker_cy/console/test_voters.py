"""Voters of the metadata quorum that are away, as all consoles show them."""

from __future__ import annotations

import pytest

from broker_cy.admin.quorum import AWAY_MS, QuorumDescription, QuorumReplica
from broker_cy.console.voters import voters_fact
from broker_cy.reporting.tone import Tone

NOW_MS = 1_700_000_000_000


def quorum(*ago_ms: int | None, leader_id: int = 1) -> QuorumDescription:
    """Voters 1 and more, which have fetched so long ago."""
    voters = tuple(
        QuorumReplica(each, "d", 9, 0, None if ago is None else NOW_MS - ago, None)
        for each, ago in enumerate(ago_ms, 1)
    )
    return QuorumDescription(leader_id, 1, 9, voters, ())


@pytest.mark.parametrize(
    ("described", "value", "tone"),
    [
        (quorum(0, 500, 400), "3", Tone.PLAIN),
        (quorum(0, AWAY_MS, 400), "3", Tone.PLAIN),
        (quorum(0, AWAY_MS + 1, 400), "3, away: 2; it has no leader once another one is lost", Tone.BAD),
        (quorum(0, None, 1, 1, 1), "5, away: 2; it can lose 1 more", Tone.WARN),
        # A leader that does not say when it answered.
        (quorum(None, 0, 60_000), "3, away: 3; it has no leader once another one is lost", Tone.BAD),
        # It is unknown which voter is away.
        (quorum(None, None, None, leader_id=-1), "3", Tone.PLAIN),
    ],
)
def test_voters_that_are_away(described: QuorumDescription, value: str, tone: Tone) -> None:
    """If this fails, a quorum that the next failure leaves without a leader looks healthy, or a healthy one lost."""
    assert voters_fact(described) == ("voters", value, tone)
