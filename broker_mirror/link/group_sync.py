"""Carries the offsets of groups over to the target of a link flow, turn by turn."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from broker_cy.admin import AdminClient, ClientError
from broker_cy.admin.group_offsets import Committed
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.mirror_links import MirrorTopic
from broker_cy.core.errors import ErrorCode
from broker_mirror.filters import NameFilter
from broker_mirror.link.groups import Wanted, equal_offsets, share_starts, to_commit
from broker_mirror.tasks.groups import ABSENT, committing_groups, may_commit, share_groups

GROUPS_A_TURN: Final = 100
"""Groups whose offsets are read at a time, so that others of the loop have their turns."""


class GroupSync:
    """`carried` has the number of partitions with offsets in the target by group, and `problems` sentences by group, of
    the last turn. A turn asks the target only about groups that have committed since the last one, or whose offsets
    were behind the end of a mirror.
    """

    def __init__(self, groups: NameFilter, source: AdminClient, target: AdminClient) -> None:
        self._groups, self._source, self._target = groups, source, target
        self.carried: dict[str, int] = {}
        self.problems: dict[str, str] = {}
        # By group: what the source had when all of it was in the target, and what was committed there.
        self._settled: dict[str, Mapping[TopicPartition, object]] = {}
        self._synced: dict[str, dict[TopicPartition, int]] = {}

    async def turn(self, mirrors: Mapping[str, list[MirrorTopic]]) -> None:
        """Commit what has changed; `mirrors` are those of each topic of the source. Raises ClientError."""
        self.problems = {}
        listed = await self._source.groups.listed()
        names = committing_groups(self._groups, listed)
        shares = share_groups(self._groups, listed)
        known = {*names, *shares}
        for kept in (self.carried, self._settled, self._synced):
            for group in [group for group in kept if group not in known]:
                del kept[group]
        for begin in range(0, len(names), GROUPS_A_TURN):
            await self._carry(names[begin : begin + GROUPS_A_TURN], mirrors)
        for begin in range(0, len(shares), GROUPS_A_TURN):
            await self._carry_starts(shares[begin : begin + GROUPS_A_TURN], mirrors)

    async def _carry(self, names: list[str], mirrors: Mapping[str, list[MirrorTopic]]) -> None:
        outcome = await self._source.group_offsets.fetch(names)
        self.problems |= {group: str(error) for group, error in outcome.failed.items()}
        changed = {
            group: offsets for group, offsets in outcome.found.items() if self._settled.get(group) != dict(offsets)
        }
        if not changed:
            return
        ends = await self._ends(changed.values(), mirrors)
        wanted = {group: equal_offsets(offsets, mirrors, ends) for group, offsets in changed.items()}
        wanted = {group: each for group, each in wanted.items() if each}
        if not wanted:
            return
        states = {each.group_id: each.state for each in await self._target.groups.listed()}
        there = await self._target.group_offsets.fetch(wanted)
        self.problems |= {group: str(error) for group, error in there.failed.items()}
        for group, each in wanted.items():
            # A group with members in the target has offsets of its own there.
            if group not in there.found or not may_commit(states.get(group, ABSENT)):
                continue
            if not await self._commit(group, each, there.found[group]):
                continue
            self.carried[group] = len(each)
            if _is_whole(changed[group], each, mirrors):
                self._settled[group] = dict(changed[group])

    async def _commit(self, group: str, wanted: Mapping[TopicPartition, Wanted], there: Committed) -> bool:
        """Whether the target has what is wanted."""
        synced = self._synced.setdefault(group, {})
        offsets = to_commit(
            {key: each.offset for key, each in wanted.items()},
            {key: each.offset for key, each in there.items()},
            synced,
        )
        if not offsets:
            return True
        try:
            outcome = await self._target.group_offsets.alter(
                group, offsets, {key: wanted[key].metadata for key in offsets}
            )
        except ClientError as error:
            # A member has joined since.
            if error.code is not ErrorCode.UNKNOWN_MEMBER_ID:
                self.problems[group] = str(error)
            return False
        synced.update(outcome.found)
        self.problems |= {f"{group}, {key}": str(error) for key, error in outcome.failed.items()}
        return not outcome.failed

    async def _carry_starts(self, names: list[str], mirrors: Mapping[str, list[MirrorTopic]]) -> None:
        source = await self._source.share_offsets.describe(names)
        self.problems |= {group: str(error) for group, error in source.failed.items()}
        starts = {group: {key: each.start for key, each in offsets.items()} for group, offsets in source.found.items()}
        changed = {group: each for group, each in starts.items() if self._settled.get(group) != each}
        if not changed:
            return
        ends = await self._ends(changed.values(), mirrors)
        states = {each.group_id: each.state for each in await self._target.groups.listed()}
        target = await self._target.share_offsets.describe([group for group in changed if group in states])
        self.problems |= {group: str(error) for group, error in target.failed.items()}
        for group in changed:
            wanted = share_starts(source.found[group], mirrors, ends)
            if not wanted or group in target.failed or not may_commit(states.get(group, ABSENT)):
                continue
            there = {key: each.start for key, each in target.found.get(group, {}).items() if each.start is not None}
            offsets = to_commit(wanted, there, self._synced.get(group, {}))
            try:
                outcome = await self._target.share_offsets.alter(group, offsets) if offsets else None
            except ClientError as error:
                self.problems[group] = str(error)
                continue
            if outcome is not None:
                self._synced.setdefault(group, {}).update(outcome.found)
                self.problems |= {f"{group}, {key}": str(error) for key, error in outcome.failed.items()}
            if outcome is None or not outcome.failed:
                self.carried[group] = len(wanted)
                self._settled[group] = changed[group]

    async def _ends(
        self, offsets: Iterable[Iterable[TopicPartition]], mirrors: Mapping[str, list[MirrorTopic]]
    ) -> dict[TopicPartition, int]:
        """Return the ends of the mirrors of these partitions; those without an answer are left out."""
        topics = {key.topic for each in offsets for key in each}
        keys = [key for topic in topics for mirror in mirrors.get(topic, ()) for key in mirror.keys]
        return (await self._target.offsets.latest(keys)).found if keys else {}


def _is_whole(
    offsets: Committed, wanted: Mapping[TopicPartition, Wanted], mirrors: Mapping[str, list[MirrorTopic]]
) -> bool:
    """Whether no offset was reduced, or left out, because its mirror does not have the records yet."""
    return all(
        mirror.link is None
        or key.partition >= mirror.partitions
        or wanted.get(TopicPartition(mirror.name, key.partition), Wanted(-1, "")).offset == committed.offset
        for key, committed in offsets.items()
        for mirror in mirrors.get(key.topic, ())
    )
