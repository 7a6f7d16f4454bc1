"""For each kind of fault, a defect that a world finds through it: the world passes with its other faults, and fails
with only those of this kind.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tests.sim.world.cluster_planted import CLUSTER_PLANTED
from tests.sim.world.jbod_planted import JBOD_PLANTED
from tests.sim.world.plan import Plan, plan_of, with_only
from tests.sim.world.planted import PLANTED, Planted

# The seeds to try for each kind, from `first` on. The seed that finds the defect changes with the broker's draws and
# messages.
FAULT_SEEDS = 40


@dataclass(frozen=True)
class Only:
    """The defect is in PLANTED, CLUSTER_PLANTED or JBOD_PLANTED; a seed from `first` on finds it. With `is_drawn` the
    seed's faults are replaced by some of the kind; otherwise they are those of its plan.
    """

    defect: str
    first: int
    is_drawn: bool = False

    @property
    def planted(self) -> Planted:
        return {**PLANTED, **CLUSTER_PLANTED, **JBOD_PLANTED}[self.defect]

    def plans(self, kind: str, seed: int) -> tuple[Plan, Plan]:
        """The plan of a seed with its faults of the kind, which may be none, and the one without them."""
        plan = plan_of(seed, self.planted.profile)
        if self.is_drawn:
            plan = with_only(plan, kind)
        of_kind = tuple(fault for fault in plan.faults if fault.kind == kind)
        return replace(plan, faults=of_kind), replace(plan, faults=tuple(f for f in plan.faults if f.kind != kind))


ONLY: dict[str, Only] = {
    "kill": Only("groups: older_offset_wins_a_reload", 0, is_drawn=True),
    "kill_in_call": Only("groups: two_leaders", 0),
    "kill_controller": Only("high_watermark_is_the_leaders_end", 0, is_drawn=True),
    "kill_ending": Only("transactions: abort_turns_into_commit_by_a_reload", 5),
    "break_ending": Only("transactions: failed_last_record_is_not_written_again", 15, is_drawn=True),
    "refuse_markers": Only("transactions: failed_marker_counts_as_written", 13),
    "lose_power": Only("group commit syncs nothing", 0, is_drawn=True),
    "lose_power_in_call": Only("the controller answers before its log is synced", 150),
    "stop": Only("groups: older_offset_wins_a_reload", 0, is_drawn=True),
    "pause": Only("empty_epochs_are_not_cut", 0, is_drawn=True),
    "cut": Only("groups: stale_generation_syncs", 4),
    "cut_up": Only("groups: stale_generation_commits", 50),
    "cut_down": Only("groups: stale_generation_commits", 60, is_drawn=True),
    "loss": Only("groups: stale_generation_commits", 4, is_drawn=True),
    "delay": Only("groups: stale_generation_commits", 0),
    "set_clock": Only("the clock of a client must be that of the broker", 0, is_drawn=True),
    "lose_data_disk": Only("dead_disks_are_not_noticed", 0),
    "fail_disk": Only("several disks: dead_disks_are_not_noticed", 0),
    "replace_disk": Only("several disks: replaced_disks_stay_empty", 0),
    "fill_behind": Only("one outcome for all batches", 0),
    "break_disk": Only("transactions: failed_records_are_not_undone", 17),
}
