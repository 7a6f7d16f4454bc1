"""Resetting the position of a group: first a plan with the old and new offset of each partition, then the commit."""

from __future__ import annotations

import asyncio
import csv
import re
from collections.abc import Iterable, Mapping
from dataclasses import field
from enum import Enum
from pathlib import Path
from typing import Final

from broker_cy.admin.caller import Outcome
from broker_cy.admin.group_offsets import Committed
from broker_cy.admin.group_positions import PositionCalls
from broker_cy.admin.group_values import WITHOUT_MEMBERS
from broker_cy.admin.groups import GroupCalls
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.offsets import OffsetCalls
from broker_cy.client.errors import ClientError, Failure
from broker_cy.core.classes import dataclass
from broker_cy.core.errors import ErrorCode
from broker_cy.reporting.numbers import plural

# An int32 and an int64 in decimal digits.
_PARTITION: Final = re.compile(r"[0-9]{1,9}")
_OFFSET: Final = re.compile(r"[0-9]{1,18}")


class ResetKind(Enum):
    """How the new offsets are determined."""

    EARLIEST = "to the earliest"
    LATEST = "to the latest"
    OFFSET = "to an offset"
    TIME = "to a time"
    SHIFT = "by a number of offsets"
    GROUP = "to another group's"
    LISTED = "to listed ones"


@dataclass(frozen=True, slots=True)
class ResetRule:
    """A rule. `value`: the offset, the time in ms since 1970, or the shift; `group_id`: whose offsets are taken;
    `listed`: the offsets themselves.
    """

    kind: ResetKind
    value: int = 0
    group_id: str = ""
    listed: Mapping[TopicPartition, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ResetStep:
    """One partition of a plan. `old` is None if nothing was committed; `new` lies between the log's `start` and
    `end`.

    `is_moved_in`: the rule gave an offset outside of the log, and the nearest one inside was taken.
    """

    partition: TopicPartition
    old: int | None
    new: int
    start: int
    end: int
    is_moved_in: bool

    @property
    def change(self) -> int | None:
        """The number of records that the group skips; negative: that it reads again. None without a commit."""
        return None if self.old is None else self.new - self.old


class ResetCalls:
    """`client.reset`."""

    def __init__(self, groups: GroupCalls, positions: PositionCalls, offsets: OffsetCalls) -> None:
        self._groups = groups
        self._positions = positions
        self._offsets = offsets

    async def plan(
        self, group_id: str, rule: ResetRule, partitions: Iterable[TopicPartition] | None = None
    ) -> tuple[ResetStep, ...]:
        """The effect of the reset, by partition; `partitions` None: all for which the group (or the rule) has offsets.

        ClientError if the group has members, no partition is given, or one cannot be examined.
        """
        await self._require_no_members(group_id)
        wanted_groups = [group_id, rule.group_id] if rule.kind is ResetKind.GROUP else [group_id]
        committed = (await self._positions.fetch(wanted_groups)).whole()
        old = committed[group_id]
        source = self._source(rule, committed)
        if partitions is not None:
            keys = sorted(set(partitions))
        else:
            keys = sorted(source if source is not None else old)
        if not keys:
            if rule.kind is ResetKind.GROUP and not source:
                raise ClientError(Failure.INVALID, "the group has committed nothing", what=f"group {rule.group_id}")
            raise ClientError(
                Failure.INVALID, "the group has committed nothing: specify the topics", what=f"group {group_id}"
            )
        earliest, latest, found = await asyncio.gather(
            self._offsets.earliest(keys), self._offsets.latest(keys), self._at_time(rule, keys)
        )
        starts, ends = earliest.whole(), latest.whole()
        steps = []
        for key in keys:
            before = old[key].offset if key in old else None
            aim = self._aim(key, rule, before, starts[key], ends[key], source, found)
            new = min(max(aim, starts[key]), ends[key])
            steps.append(ResetStep(key, before, new, starts[key], ends[key], new != aim))
        return tuple(steps)

    async def apply(self, group_id: str, steps: Iterable[ResetStep]) -> Outcome[TopicPartition, int]:
        """Commit a plan; the offsets that were committed, or that a share group starts at."""
        return await self._positions.alter(group_id, {step.partition: step.new for step in steps})

    async def _require_no_members(self, group_id: str) -> None:
        described = await self._groups.describe([group_id])
        group = described.found.get(group_id)
        if group is None:
            error = described.failed[group_id]
            # A group that does not exist is created by its first commit.
            if error.code is ErrorCode.GROUP_ID_NOT_FOUND:
                return
            raise error
        if group.members or group.state not in WITHOUT_MEMBERS:
            clients = ", ".join(sorted({member.client_id for member in group.members})[:5])
            raise ClientError(
                Failure.REFUSED,
                f"the group is {group.state} with {plural(len(group.members), 'member')} ({clients}); stop them first",
                code=ErrorCode.NON_EMPTY_GROUP,
                what=f"group {group_id}",
            )

    @staticmethod
    def _source(rule: ResetRule, committed: Mapping[str, Committed]) -> dict[TopicPartition, int] | None:
        """The offsets that the rule itself contains; None if it has none."""
        if rule.kind is ResetKind.LISTED:
            return dict(rule.listed)
        if rule.kind is ResetKind.GROUP:
            return {key: each.offset for key, each in committed[rule.group_id].items()}
        return None

    async def _at_time(self, rule: ResetRule, keys: list[TopicPartition]) -> dict[TopicPartition, int | None]:
        if rule.kind is not ResetKind.TIME:
            return {}
        found = (await self._offsets.at(dict.fromkeys(keys, rule.value))).whole()
        return {key: each.offset for key, each in found.items()}

    @staticmethod
    def _aim(
        key: TopicPartition,
        rule: ResetRule,
        old: int | None,
        start: int,
        end: int,
        source: Mapping[TopicPartition, int] | None,
        at_time: Mapping[TopicPartition, int | None],
    ) -> int:
        """The offset that the rule gives, inside the log or not."""
        if rule.kind is ResetKind.EARLIEST:
            return start
        if rule.kind is ResetKind.LATEST:
            return end
        if rule.kind is ResetKind.OFFSET:
            return rule.value
        if rule.kind is ResetKind.TIME:
            found = at_time[key]
            return end if found is None else found
        if rule.kind is ResetKind.SHIFT:
            if old is None:
                raise ClientError(Failure.INVALID, "there is no committed offset to shift", what=f"partition {key}")
            return old + rule.value
        if source is None or key not in source:
            raise ClientError(Failure.INVALID, f"no offset is given {rule.kind.value}", what=f"partition {key}")
        return source[key]


def read_offsets(path: Path) -> dict[TopicPartition, int]:
    """Read lines of `topic,partition,offset`. Raises ClientError, which names the line, for anything else."""
    found: dict[TopicPartition, int] = {}
    with open(path, newline="", encoding="utf-8") as file:
        for line, row in enumerate(csv.reader(file), 1):
            if not row:
                continue
            if len(row) != 3 or not _PARTITION.fullmatch(row[1]) or not _OFFSET.fullmatch(row[2]):
                reason = f"line {line}, {','.join(row)!r}: expected topic,partition,offset"
                raise ClientError(Failure.INVALID, reason, what=str(path))
            found[TopicPartition(row[0], int(row[1]))] = int(row[2])
    return found
