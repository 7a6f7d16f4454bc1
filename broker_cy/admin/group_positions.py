"""Where groups of any type continue to read: committed offsets, and the start offsets of share groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from broker_cy.admin.caller import Outcome
from broker_cy.admin.group_offsets import Committed, CommittedOffset, GroupOffsetCalls
from broker_cy.admin.group_values import SHARE
from broker_cy.admin.groups import GroupCalls
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.share_offsets import ShareOffsetCalls, ShareOffsets
from broker_cy.client.errors import ClientError, Failure
from broker_cy.core.errors import ErrorCode


class PositionCalls:
    """`client.positions`."""

    def __init__(self, groups: GroupCalls, group_offsets: GroupOffsetCalls, share_offsets: ShareOffsetCalls) -> None:
        self._groups = groups
        self._group_offsets = group_offsets
        self._share_offsets = share_offsets

    async def fetch(self, group_ids: Iterable[str]) -> Outcome[str, Committed]:
        """The position of each group, by partition; {} for a group that does not exist."""
        committed, shared = await self.fetch_by_type(group_ids)
        found = dict(committed.found)
        for group_id, offsets in shared.items():
            found[group_id] = {
                key: CommittedOffset(each.start, each.leader_epoch, "")
                for key, each in offsets.items()
                if each.start is not None
            }
        return Outcome(found, committed.failed)

    async def fetch_by_type(self, group_ids: Iterable[str]) -> tuple[Outcome[str, Committed], dict[str, ShareOffsets]]:
        """The committed offsets of groups, and the offsets of those that are share groups. A coordinator answers for
        the committed offsets of a share group as for those of a missing group: there are none.
        """
        committed = await self._group_offsets.fetch(group_ids)
        empty = [key for key, offsets in committed.found.items() if not offsets]
        if not empty:
            return committed, {}
        shared = (await self._share_offsets.describe(empty)).found
        found = {key: offsets for key, offsets in committed.found.items() if key not in shared}
        return Outcome(found, committed.failed), shared

    async def alter(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> Outcome[TopicPartition, int]:
        """Set the position of a group without members. A missing group is created, as a group of consumers."""
        if await self._is_shared(group_id):
            return await self._share_offsets.alter(group_id, offsets)
        return await self._group_offsets.alter(group_id, offsets)

    async def delete(self, group_id: str, partitions: Iterable[TopicPartition]) -> Outcome[TopicPartition, bool]:
        """Delete the position of a group in `partitions`. A share group forgets whole topics: ClientError if it has
        read others of their partitions.
        """
        keys = list(dict.fromkeys(partitions))
        if not await self._is_shared(group_id):
            return await self._group_offsets.delete(group_id, keys)
        topics = {key.topic for key in keys}
        known = (await self._share_offsets.describe([group_id])).whole()[group_id]
        for key, each in sorted(known.items()):
            if key.topic in topics and each.start is not None and key not in keys:
                raise ClientError(
                    Failure.INVALID,
                    f"a share group forgets whole topics, and {key} is not selected",
                    what=f"group {group_id}",
                )
        by_topic = await self._share_offsets.delete(group_id, sorted(topics))
        return Outcome(
            {key: True for key in keys if key.topic in by_topic.found},
            {key: by_topic.failed[key.topic] for key in keys if key.topic in by_topic.failed},
        )

    async def _is_shared(self, group_id: str) -> bool:
        """Raises ClientError if the type of the group is unknown."""
        described = await self._groups.describe([group_id])
        error = described.failed.get(group_id)
        if error is not None and error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
            raise error
        return error is None and described.found[group_id].group_type == SHARE
