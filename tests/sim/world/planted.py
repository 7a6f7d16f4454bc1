"""Defects that the world must find: wrong behaviours of all parts of the broker, and ranges of seeds; one of these
seeds fails.

Most defects are those of power_planted, group_defects and txn_defects: the whole broker shows them to its clients. The
world does not find the RARE ones of the latter two.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pytest

from broker_cy.config.topic import TopicSettings
from broker_cy.connections.listener import Listener
from broker_cy.control.quorum.metadata_log import MetadataLog
from broker_cy.coordinator_services.coordinator_runtime import CoordinatorRuntime
from broker_cy.coordinator_services.record_writer import RecordWriter
from broker_cy.partitions.partition_service import PartitionService
from broker_cy.partitions.topic_configs import TopicConfigs
from broker_cy.replica.partition import Partition
from broker_cy.replica.partition_table import PartitionTable
from broker_cy.server.jobs import LoopJobs
from broker_cy.server.lifecycle import BrokerServer
from broker_cy.storage import log_truncation
from tests.sim import group_defects, txn_defects
from tests.sim.power_planted import PLANTED as OF_STORAGE
from tests.sim.world.plan import EVERYTHING, Plan, plan_of, with_only

# So many seeds find most of the coordinators' defects, each in its profile.
SEEDS = 60
Plant = Callable[[pytest.MonkeyPatch], Any]


@dataclass(frozen=True)
class Planted:
    """`plant` makes the code wrong; one of `seeds` seeds of `profile` from `first` on finds it."""

    plant: Plant
    seeds: int
    first: int = 0
    profile: str = EVERYTHING
    # The kind of all faults, if other kinds hardly ever reach the defect.
    fault: str | None = None

    def plan(self, seed: int) -> Plan:
        plan = plan_of(seed, self.profile)
        return plan if self.fault is None else with_only(plan, self.fault)


def _of_storage(name: str, seeds: int, first: int = 0) -> tuple[str, Planted]:
    return name, Planted(OF_STORAGE[name].plant, seeds, first)


def _of_groups(plant: Plant) -> tuple[str, Planted]:
    return f"groups: {plant.__name__}", LATE.get(plant) or Planted(plant, SEEDS, profile="groups")


def _of_transactions(plant: Plant) -> tuple[str, Planted]:
    return f"transactions: {plant.__name__}", LATE.get(plant) or Planted(plant, SEEDS, profile="transactions")


def _metadata_is_not_synced(patch: pytest.MonkeyPatch) -> None:
    """An operation of the controller is acknowledged before it is on disk."""
    patch.setattr(MetadataLog, "begin_sync", lambda self: lambda: None)


def _producers_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    """A start knows nothing of the producers that wrote to a log."""
    patch.setattr(log_truncation, "reload_producers", lambda *arguments, **named: None)


def _deleted_topics_stay(patch: pytest.MonkeyPatch) -> None:
    """The partitions of a deleted topic stay; a new topic with its name gets its log."""
    patch.setattr(PartitionService, "_delete", lambda self, topic: None)


def _nothing_is_served_after_a_start(patch: pytest.MonkeyPatch) -> None:
    """The coordinators of a broker that starts again never finish loading."""

    async def never(self: CoordinatorRuntime[Any, Any], *arguments: Any) -> None:
        await self._loop.create_future()

    patch.setattr(CoordinatorRuntime, "load", never)


def _stop_waits_for_ever(patch: pytest.MonkeyPatch) -> None:
    """A clean stop waits for something that never happens."""

    async def never(self: BrokerServer) -> None:
        await self.loop.create_future()

    patch.setattr(BrokerServer, "_stop_opening", never)


def _full_listener_stays_closed(patch: pytest.MonkeyPatch) -> None:
    """A listener accepts one client, and the next ones only after a restart."""
    admit = Listener._admit

    def wrong(self: Listener, *arguments: Any) -> None:
        admit(self, *arguments)
        self.pause()

    patch.setattr(Listener, "_admit", wrong)


def _jobs_are_lost(patch: pytest.MonkeyPatch) -> None:
    """The result of a job of a worker does not come back while another one runs."""
    deliver = LoopJobs._deliver
    count = itertools.count(1)

    def wrong(self: LoopJobs, *arguments: Any) -> None:
        if next(count) % 20:
            deliver(self, *arguments)

    patch.setattr(LoopJobs, "_deliver", wrong)


def _clocks_must_be_equal(patch: pytest.MonkeyPatch) -> None:
    """A batch is refused as soon as its client's clock is half a minute ahead of that of the broker."""
    right = TopicConfigs.settings
    patch.setattr(
        TopicConfigs,
        "settings",
        lambda self, topic: TopicSettings({**right(self, topic), "message.timestamp.after.max.ms": 30_000}, {}),
    )


def _names_lead_to_the_first_life(patch: pytest.MonkeyPatch) -> None:
    """Requests by name reach the first topic that had the name; requests by id reach the right one."""
    add = PartitionTable.add

    def wrong(self: PartitionTable, partition: Partition) -> None:
        name = partition.topic.encode()
        first = self.by_name.pop(name, None)
        if partition.topic_id.bytes in self.by_id:
            self.by_name[name] = self.by_id[partition.topic_id.bytes]
        add(self, partition)
        if first is not None:
            self.by_name[name] = first

    patch.setattr(PartitionTable, "add", wrong)

    def remove(self: PartitionTable, topic: str, topic_id: UUID) -> list[Partition]:
        return [each for each in self.by_id.pop(topic_id.bytes, []) if each is not None]

    patch.setattr(PartitionTable, "remove_topic", remove)


def _one_outcome_for_all_batches(patch: pytest.MonkeyPatch) -> None:
    """The outcome of the last batch of a coordinator in flight is that of all batches."""
    right = RecordWriter._completed

    def wrong(self: RecordWriter[Any], batch: Any, error: BaseException | None) -> None:
        if not self._staged or batch is not self._staged[-1]:
            return
        for each in list(self._staged):
            right(self, each, error)

    patch.setattr(RecordWriter, "_completed", wrong)


# Those that few seeds find, with the first seed just before one that finds it.
LATE: dict[Plant, Planted] = {
    each.plant: each
    for each in [
        # It needs a calm time with few members.
        Planted(group_defects.expired_member_is_kept, 120, profile="groups"),
        # A member has to be idle between two joins for longer than its session, and not commit: few seeds do so.
        Planted(group_defects.session_timer_is_not_set_again, 30, first=20, profile="groups"),
        Planted(group_defects.response_is_sent_before_the_write, 30, first=540, profile="groups"),
        Planted(group_defects.stale_generation_heartbeats, 30, first=130, profile="groups"),
        Planted(txn_defects.commit_turns_into_abort_by_a_retry, 30, first=22, profile="transactions"),
        Planted(txn_defects.failed_marker_counts_as_written, 30, first=50, profile="transactions"),
        Planted(txn_defects.failed_markers_are_not_sent_again, 30, first=8, profile="transactions"),
        Planted(txn_defects.complete_before_all_markers, 30, first=8, profile="transactions"),
        Planted(txn_defects.failed_records_are_not_undone, 30, first=40, profile="transactions"),
        Planted(txn_defects.response_is_sent_before_the_write, 30, first=200, profile="transactions"),
        # The disk has to refuse a record right after it took all markers.
        Planted(
            txn_defects.failed_last_record_is_not_written_again,
            10,
            first=10,
            profile="transactions",
            fault="break_ending",
        ),
    ]
}


PLANTED: dict[str, Planted] = dict(
    [
        _of_storage("group commit syncs nothing", 60),
        _of_storage("a start serves what a killed process did not sync", 60),
        *(_of_groups(plant) for plant in group_defects.DEFECTS if plant not in group_defects.RARE),
        *(_of_transactions(plant) for plant in txn_defects.DEFECTS if plant not in txn_defects.RARE),
        _of_storage("logs are opened late after a power cut", 60),
        ("the controller answers before its log is synced", Planted(_metadata_is_not_synced, 80)),
        ("producers are forgotten by a start", Planted(_producers_are_forgotten, 60)),
        ("partitions of deleted topics stay", Planted(_deleted_topics_stay, 60)),
        ("names lead to the first life of a topic", Planted(_names_lead_to_the_first_life, 60)),
        ("coordinators load for ever", Planted(_nothing_is_served_after_a_start, 60)),
        ("one outcome for all batches", Planted(_one_outcome_for_all_batches, 30, first=60, profile="offsets")),
        ("a stop waits for ever", Planted(_stop_waits_for_ever, 60)),
        ("a listener accepts one client", Planted(_full_listener_stays_closed, 60)),
        ("results of jobs are lost", Planted(_jobs_are_lost, 60)),
        ("the clock of a client must be that of the broker", Planted(_clocks_must_be_equal, 5, fault="set_clock")),
    ]
)
