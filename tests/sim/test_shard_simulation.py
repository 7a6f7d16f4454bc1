"""Seeded runs of a parent and its shards; see tests/sim/shard_world.py."""

from __future__ import annotations

import os

import pytest

from broker_cy.core import supervision
from broker_cy.core.supervision import Action, Phase, Supervisor, Terminate
from broker_cy.shards import supervisor as sup
from broker_cy.shards.supervisor import ShardSupervisor
from tests.sim.defects import Patch, Planter, must_find
from tests.sim.seeds import parts_of, repeatable
from tests.sim.shard_world import World

SEEDS = 150
ONE_SEED = os.environ.get("SHARD_SIM_SEED")


def run(seed: int) -> World:
    world = World(seed)
    with repeatable(
        "SHARD_SIM_SEED", seed, "test_shard_simulation.py -k supervised", lambda: f"after {world.now_ms} ms"
    ):
        world.run()
    return world


def test_shards_are_supervised() -> None:
    """If this fails, a shard stays away, runs twice, or outlives its parent; or the controller stops first."""
    totals = {"restarts": 0, "adoptions": 0, "kills": 0, "stops": 0, "rolls": 0}
    for seeds in parts_of(ONE_SEED, 1, SEEDS):
        for seed in seeds:
            world = run(seed)
            for name in totals:
                totals[name] += getattr(world, name)
    print(totals)
    if ONE_SEED is None:
        assert min(totals.values()) > SEEDS / 10, f"the runs were idle: {totals}"


def stale_end_counts(patch: Patch) -> None:
    """The end of a second process counts as that of the shard: its process is started again, although it runs."""

    def hello(self: ShardSupervisor, shard: int, pid: int, is_current: bool) -> list[sup.Action]:
        self.slots[shard].pid = pid
        return []

    patch.setattr(ShardSupervisor, "_hello", hello)


def no_backoff(patch: Patch) -> None:
    """A shard that cannot start is started without pause."""
    patch.setattr(supervision, "backoff_ms", lambda failures: 10)


def endless_backoff(patch: Patch) -> None:
    """The pause between two starts grows without a bound."""
    patch.setattr(supervision, "backoff_ms", lambda failures: 100 << failures)


def restarts_while_stopping(patch: Patch) -> None:
    """A shard that ends while the parent stops is started again."""
    right = Supervisor._ended

    def ended(self: Supervisor, child: int, code: int | None, now_ms: int, actions: list[Action]) -> None:
        stopping, self._stopping = self._stopping, False
        right(self, child, code, now_ms, actions)
        self._stopping = stopping or self._stopping

    patch.setattr(Supervisor, "_ended", ended)


def controller_stops_first(patch: Patch) -> None:
    """All shards are asked to stop together, and those that need the controller find none."""
    patch.setattr(Supervisor, "_may_stop", lambda self, shard: True)


def ends_are_not_told(patch: Patch) -> None:
    """The others do not learn of the end of a shard."""
    right = ShardSupervisor.take

    def take(self: ShardSupervisor, event: sup.Event, now_ms: int) -> list[sup.Action]:
        return [each for each in right(self, event, now_ms) if not isinstance(each, sup.TellEnded)]

    patch.setattr(ShardSupervisor, "take", take)


def frozen_one_is_adopted(patch: Patch) -> None:
    """The next parent waits forever for a shard that stands still."""
    right = Supervisor._has_deadline
    patch.setattr(
        Supervisor,
        "_has_deadline",
        staticmethod(lambda slot: right(slot) and not (slot.adopted and slot.phase is Phase.STARTING)),
    )


def stop_waits_for_ever(patch: Patch) -> None:
    """A shard that does not stop is never killed."""
    right = Supervisor._has_deadline
    patch.setattr(
        Supervisor, "_has_deadline", staticmethod(lambda slot: right(slot) and slot.phase is not Phase.STOPPING)
    )


def all_are_replaced_at_once(patch: Patch) -> None:
    """All shards with other settings are stopped together, so that no shard serves."""

    def replace(self: Supervisor, now_ms: int, actions: list[Action]) -> None:
        for child, slot in enumerate(self.slots):
            if slot.phase is Phase.READY and (why := self._outdated(child)):
                slot.phase, slot.due_ms = Phase.STOPPING, now_ms + sup.STOP_MS
                actions.append(Terminate(child, slot.pid, why))

    patch.setattr(Supervisor, "_replace", replace)


DEFECTS: dict[Planter, int] = {
    stale_end_counts: 20,
    no_backoff: 60,
    endless_backoff: 60,
    restarts_while_stopping: 20,
    controller_stops_first: 20,
    ends_are_not_told: 20,
    frozen_one_is_adopted: 100,
    stop_waits_for_ever: 60,
    all_are_replaced_at_once: 60,
}


@pytest.mark.parametrize("plant", [pytest.param(plant, id=plant.__name__) for plant in DEFECTS])
def test_planted_defect_is_found(plant: Planter, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, the simulation passes although the supervisor has this defect."""
    must_find(plant, run, monkeypatch, DEFECTS[plant], key=f"shard: {plant.__name__}")
