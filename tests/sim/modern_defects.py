"""Defects that consumer, share and streams groups have in common, which the simulation of each must find. Each is
planted by replacing one function; those that another implementation had name its issue.
"""

from __future__ import annotations

from typing import Any

from broker_cy.coordinator.modern import assigning
from broker_cy.coordinator.modern.commits import CommittingGroup
from broker_cy.coordinator.modern.group import EpochGroup
from broker_cy.coordinator.modern.removal import MembersRemoved
from broker_cy.coordinator.modern.replay import ModernReplay
from broker_cy.coordinator.step import GroupStep
from broker_cy.coordinator.timers import OVER, Deadline, TimerKind, Timers
from broker_cy.core.errors import ErrorCode, KafkaError
from tests.sim.defects import Patch


def tombstones_need_their_group(patch: Patch) -> None:
    """A log cannot be loaded whose records of a deleted group were compacted away, but for tombstones (KAFKA-17306)."""
    right = ModernReplay.group

    def group(self: Any, machine: Any, group_id: str, value: bytes | None) -> Any:
        found = right(self, machine, group_id, value)
        if found[0] is None:
            raise ValueError(f"a tombstone of the group {group_id}, which does not exist")
        return found

    patch.setattr(ModernReplay, "group", group)


def commits_need_the_newest_epoch(patch: Patch) -> None:
    """During a rebalance, a member cannot commit in what it still has (KAFKA-20066)."""

    def check(self: CommittingGroup[Any, Any], member: Any, epoch: int) -> None:
        if epoch != member.epoch:
            raise KafkaError(ErrorCode.STALE_MEMBER_EPOCH)

    patch.setattr(CommittingGroup, "_commit_check", check)


def stale_members_commit(patch: Patch) -> None:
    """A member commits in a partition that another one has since its epoch."""
    patch.setattr(CommittingGroup, "_commit_check", lambda self, member, epoch: None)


def later_parts_of_targets_are_lost(patch: Patch) -> None:
    """Members get only the first part of a result that is appended in parts."""
    patch.setattr(assigning, "TARGETS_PER_TURN", 1)
    patch.setattr(assigning, "unchanged", lambda rest: [])
    for world in ("consumer_world", "streams_world"):
        patch.setattr(f"tests.sim.{world}.assigned_at_once_max", lambda _: 0)


def silent_members_stay(patch: Patch) -> None:
    """A member whose session has ended stays."""
    _without_timer(patch, TimerKind.SESSION)


def slow_members_stay(patch: Patch) -> None:
    """A member that does not give up in time what it has to stays."""
    _without_timer(patch, TimerKind.REBALANCE)


def _without_timer(patch: Patch, kind: TimerKind) -> None:
    right = Timers.set

    def set_timer(self: Timers[Any], key: Any, deadline_ms: int) -> Deadline:
        return right(self, key, deadline_ms) if key.kind is not kind else Deadline(OVER)

    patch.setattr(Timers, "set", set_timer)


def members_whose_removal_failed_have_no_session(patch: Patch) -> None:
    """A member stays forever if the records that remove it could not be written."""
    patch.setattr(MembersRemoved, "failed", lambda *_: None)


def changed_topics_are_not_noticed(patch: Patch) -> None:
    """A group keeps the partitions of its topics as they were once."""
    patch.setattr(EpochGroup, "topics_changed", lambda *_: None)


def answers_are_sent_before_the_write(patch: Patch) -> None:
    """A member learns of an epoch that is not in the log, and may never be."""
    patch.setattr(GroupStep, "reply_when_written", lambda self, token, response, *more: self.reply(token, response))
