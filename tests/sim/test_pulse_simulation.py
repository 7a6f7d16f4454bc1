"""Seeded runs of the questions whether a node runs; see tests/sim/pulse_world.py."""

from __future__ import annotations

import os

import pytest

from broker_cy.controller import pulse
from broker_cy.controller.pulse import Pulse, Turn
from tests.sim.defects import Patch, Planter, must_find
from tests.sim.pulse_world import World
from tests.sim.seeds import parts_of, repeatable

SEEDS = 300
ONE_SEED = os.environ.get("PULSE_SIM_SEED")


def run(seed: int) -> World:
    world = World(seed)
    with repeatable("PULSE_SIM_SEED", seed, "test_pulse_simulation.py -k only", lambda: f"after {world.now_ms} ms"):
        world.run()
    return world


def test_only_a_node_that_stands_still_is_silent() -> None:
    """If this fails, brokers that work are fenced, or brokers that stand still are not."""
    silences = flaps = answers = 0
    for seeds in parts_of(ONE_SEED, 1, SEEDS):
        for seed in seeds:
            world = run(seed)
            silences += world.silences
            flaps += world.flaps
            answers += world.answers
    print(f"{answers} answers, {silences} silences, {flaps} flaps")
    if ONE_SEED is None:
        assert min(silences, flaps) > SEEDS / 2, "the runs were idle"


def own_pause_counts(patch: Patch) -> None:
    """The asking node mistakes its own long turns for the silence of the other one."""
    right = Pulse.turn

    def turn(self: Pulse, now_ms: int) -> Turn:
        self._turn_ms = now_ms
        return right(self, now_ms)

    patch.setattr(Pulse, "turn", turn)


def one_missed_turn_is_silence(patch: Patch) -> None:
    """A node is silent after one turn without an answer."""
    right = Pulse.turn

    def turn(self: Pulse, now_ms: int) -> Turn:
        found = right(self, now_ms)
        self._is_silent |= self._missed > 0
        return Turn(found.ask, self._is_silent)

    patch.setattr(Pulse, "turn", turn)


def answer_is_forgotten(patch: Patch) -> None:
    """Missed turns before an answer count after it."""
    right = Pulse.answered

    def answered(self: Pulse, now_ms: int) -> None:
        missed = self._missed
        right(self, now_ms)
        self._missed = missed

    patch.setattr(Pulse, "answered", answered)


def flap_changes_nothing(patch: Patch) -> None:
    """A broker that was wrongly considered dead is considered dead as fast the next time."""
    right = Pulse.answered

    def answered(self: Pulse, now_ms: int) -> None:
        if self._is_silent:
            self._is_silent, self._asked_ms, self._missed = False, -1, 0
        right(self, now_ms)

    patch.setattr(Pulse, "answered", answered)


def interval_grows_for_ever(patch: Patch) -> None:
    """A node that answers slowly is asked more and more rarely, so that its end is not detected."""
    right = Pulse.answered

    def answered(self: Pulse, now_ms: int) -> None:
        took_ms = now_ms - self._asked_ms
        right(self, now_ms)
        if 2 * took_ms > self.interval_ms:
            self.interval_ms *= 2

    patch.setattr(Pulse, "answered", answered)


def silence_is_never_noticed(patch: Patch) -> None:
    """No node is considered silent."""
    patch.setattr(pulse, "MISSED_MAX", 1 << 30)


def second_question(patch: Patch) -> None:
    """A node is asked again before it has answered: answers are matched to other questions."""
    right = Pulse.turn
    patch.setattr(Pulse, "turn", lambda self, now_ms: Turn(True, right(self, now_ms).is_silent))


DEFECTS: dict[Planter, int] = {
    own_pause_counts: 60,
    one_missed_turn_is_silence: 10,
    answer_is_forgotten: 30,
    flap_changes_nothing: 30,
    interval_grows_for_ever: 30,
    silence_is_never_noticed: 10,
    second_question: 10,
}
# About one seed of 150 finds it.
FIRST: dict[Planter, int] = {own_pause_counts: 450}


@pytest.mark.parametrize("plant", [pytest.param(plant, id=plant.__name__) for plant in DEFECTS])
def test_planted_defect_is_found(plant: Planter, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, the simulation passes although the pulse has this defect."""
    must_find(plant, run, monkeypatch, DEFECTS[plant], first=FIRST.get(plant, 1), key=f"pulse: {plant.__name__}")
