"""The outcomes that a process notes while it produces."""

from __future__ import annotations

import random

import pytest

from loadgen.verify import ledger
from loadgen.verify.ledger import ACKNOWLEDGED, REFUSED, UNKNOWN, Ledger, of_batches


def test_outcomes_survive_the_folding(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a long run forgets that a record was refused or never answered, and reports it as lost."""
    monkeypatch.setattr(ledger, "RECENT_MAX", 16)
    source = random.Random(1)
    track = Ledger().track(1, "t", 0)
    expected = {}
    for number in range(1000):
        sequence = track.begin()
        assert sequence == number
        expected[sequence] = source.choice([ACKNOWLEDGED, ACKNOWLEDGED, REFUSED, UNKNOWN])
        settled = source.randrange(max(0, number - 30), number + 1)  # in any order, some late, some never
        track.settle(settled, expected[settled])
        if settled != sequence and source.random() < 0.9:
            track.settle(sequence, expected[sequence])
        elif settled != sequence:
            expected[sequence] = UNKNOWN
    producer, topic, partition, sent, ranges = track.state()
    assert (producer, topic, partition, sent) == (1, "t", 0, 1000)
    noted = {first + at: outcome for first, count, outcome in ranges for at in range(count)}
    assert noted == {sequence: outcome for sequence, outcome in expected.items() if outcome != ACKNOWLEDGED}


def test_batches_of_an_idempotent_producer_have_their_own_state() -> None:
    """If this fails, the C engine's batches are confused with a user's records, or open ones count as acknowledged."""
    noted = Ledger()
    noted.track(7, "t", 1).begin()
    noted.batches(7, "t", 1, 100, 120)
    noted.batches(8, "t", 1, 100, 100)
    noted.batches(9, "t", 1, 0, 0)
    assert noted.state() == [
        [7, "t", 1, 1, [[0, 1, UNKNOWN]]],
        [of_batches(7), "t", 1, 120, [[100, 20, UNKNOWN]]],
        [of_batches(8), "t", 1, 100, []],
    ]
