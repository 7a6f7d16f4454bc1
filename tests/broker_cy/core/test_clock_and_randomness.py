"""Virtual time and repeatable draws, on which every simulation stands."""

from __future__ import annotations

import random

import pytest

from broker_cy.core import uuid as uuids
from broker_cy.core.clock import MACHINE_CLOCK, ManualClock
from broker_cy.core.randomness import MACHINE_RANDOMNESS, Randomness


def test_a_manual_clock_sleeps_without_waiting() -> None:
    """If this fails, a throttled worker of a simulation stops the simulation, or never sees the time pass."""
    clock = ManualClock(wall_ms=1_000)
    for _ in range(10):
        clock.sleep(0.0004)
    assert clock.monotonic_ns() == 4_000_000
    assert clock.wall_ms() == 1_004
    with pytest.raises(ValueError, match="-1 ns"):
        clock.advance_ns(-1)


def test_the_machine_does_not_stand_still() -> None:
    """If this fails, a broker that is given the machine's clock lives in virtual time."""
    before = MACHINE_CLOCK.monotonic_ns()
    MACHINE_CLOCK.sleep(0.001)
    assert MACHINE_CLOCK.monotonic_ns() >= before + 1_000_000


def test_the_draws_of_a_seed_repeat() -> None:
    """If this fails, a failing seed of a simulation cannot be replayed."""

    def drawn(randomness: Randomness) -> list[object]:
        return [
            randomness.integer(1, 1 << 30),
            randomness.between(0.8, 1.2),
            randomness.take_bytes(16),
            randomness.uuid(),
            randomness.kafka_uuid(),
        ]

    assert drawn(Randomness(random.Random(7))) == drawn(Randomness(random.Random(7)))
    assert drawn(MACHINE_RANDOMNESS) != drawn(MACHINE_RANDOMNESS)


def test_ids_that_kafka_does_not_use_are_drawn_again() -> None:
    """If this fails, one topic id in 64 starts with a dash, which Kafka's tools read as an option."""
    randomness = Randomness(random.Random(1))
    assert all(uuids.usable(randomness.kafka_uuid()) for _ in range(1_000))
    assert not all(uuids.usable(randomness.uuid()) for _ in range(1_000))
