"""The world's knowledge of operators' acts on records of a share group: they release, reject and redrive them.

An act may change a record from its request to its answer, and one that was not answered may still arrive. Meanwhile no
lock of the record is sure. The answer is a promise: a released or redriven record is delivered again before the start
offset passes it, and a rejected one stays archived until it is redriven.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING

from broker_cy.wire.share_operations import Changed, OperatorAction
from tests.history.operations import Place
from tests.sim.world.groups import ARRIVES_US

if TYPE_CHECKING:
    from tests.sim.world.world import World

# As in SharePartition.in_flight: the first and the last offset, the state, the delivery count, the member that has the
# records, the end of its lock, and whether the state is being written.
Run = tuple[int, int, int, int, "str | None", int, bool]
AVAILABLE, ACQUIRED, ARCHIVED = 0, 1, 4


@dataclass
class Act:
    """An act under way. `is_alone`: no other act may change one of the records meanwhile."""

    action: OperatorAction
    place: Place
    # By offset: the states at the newest leader since the request.
    states: dict[int, list[int]]
    is_alone: bool


class Acts:
    def __init__(self, world: World) -> None:
        self._world = world
        self._open: list[Act] = []
        # By record: until when an act that has ended may change it; how many acts may have redriven it.
        self._until_us: dict[tuple[Place, int], int] = {}
        self._redrives: dict[tuple[Place, int], int] = {}
        # By partition: records that were rejected, and those that have to be delivered again.
        self._rejected: dict[Place, set[int]] = defaultdict(set)
        self._owed: dict[Place, set[int]] = defaultdict(set)
        # The number of records for which a promise was kept.
        self.kept = 0

    def is_sure(self, place: Place, offset: int, since_us: int) -> bool:
        """Whether no act may have changed a record since then."""
        is_open = any(act.place == place and offset in act.states for act in self._open)
        return not is_open and self._until_us.get((place, offset), -1) < since_us

    def redrives(self, place: Place, offset: int) -> int:
        """Each of them adds a delivery to a record, and one to its count."""
        return self._redrives.get((place, offset), 0)

    def owed(self) -> list[tuple[Place, int]]:
        """The records that have to be delivered again."""
        return [(place, offset) for place, offsets in self._owed.items() for offset in sorted(offsets)]

    # --- what operators do

    def begin(self, action: OperatorAction, place: Place, offsets: range) -> Act:
        """An operator sends a request that may change any of these records."""
        now_us = self._world.time.now_us
        is_alone = all(self.is_sure(place, each, now_us) for each in offsets)
        for other in self._open:
            if other.place == place and not other.states.keys().isdisjoint(offsets):
                other.is_alone = False
        act = Act(action, place, {each: [] for each in offsets}, is_alone)
        self._open.append(act)
        for promised in (self._rejected, self._owed):
            promised[place].difference_update(offsets)
        if action is OperatorAction.REDRIVE:
            for each in offsets:
                self._redrives[place, each] = self.redrives(place, each) + 1
        return act

    def ended(self, act: Act, *, is_lost: bool = False) -> None:
        """The request was answered, or the connection is lost: then it may still arrive."""
        self._open.remove(act)
        until_us = self._world.time.now_us + (ARRIVES_US if is_lost else 0)
        for each in act.states:
            self._until_us[act.place, each] = max(until_us, self._until_us.get((act.place, each), 0))

    def promised(self, act: Act, changed: Changed) -> bool:
        """Return whether the answer to an act promises that all its records are changed, and none of them is archived
        instead. Raises AssertionError if the promise is broken already.
        """
        if not act.is_alone or changed != Changed(len(act.states), 0):
            return False
        for offset, seen in act.states.items():
            if act.action is OperatorAction.REJECT:
                self._rejected[act.place].add(offset)
                continue
            name = f"{act.action.name.lower()} of {act.place[0]}-{act.place[1]}: {offset}"
            assert AVAILABLE in seen, f"the {name} is answered, and the states were {seen}"
            if ACQUIRED not in seen[len(seen) - seen[::-1].index(AVAILABLE) :]:
                self._owed[act.place].add(offset)
        return True

    # --- after each turn of the newest leader

    def see(self, place: Place, runs: list[Run], start: int, floor: int) -> None:
        """Compare the promises with the records in flight, and with the start offset; records before `floor` were
        deleted. Raises AssertionError if a promise is broken.
        """
        for act in self._open:
            if act.place == place:
                for offset, seen in act.states.items():
                    state = _state_of(runs, offset) if offset >= start else ARCHIVED
                    if not seen or seen[-1] != state:
                        seen.append(state)
        name = f"{place[0]}-{place[1]}"
        for offset in sorted(self._rejected[place]):
            if offset < max(start, floor):
                self._keep(self._rejected[place], offset)
            else:
                state = _state_of(runs, offset)
                assert state == ARCHIVED, f"{name}: {offset} was rejected, and its state is {state}"
        for offset in sorted(self._owed[place]):
            if offset < floor or _state_of(runs, offset) == ACQUIRED:
                self._keep(self._owed[place], offset)
            else:
                assert offset >= start, (
                    f"{name}: the start offset {start} passes {offset}, which must be delivered again"
                )

    def _keep(self, promised: set[int], offset: int) -> None:
        promised.remove(offset)
        self.kept += 1


def _state_of(runs: list[Run], offset: int) -> int:
    """The state of a record; one that is not in flight is available."""
    index = bisect_right(runs, offset, key=itemgetter(0)) - 1
    return runs[index][2] if index >= 0 and offset <= runs[index][1] else AVAILABLE
