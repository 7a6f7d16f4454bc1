"""The offsets of groups in link flows: they are equal on both sides, so they are committed as they are. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from broker_cy.admin.group_offsets import Committed
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.mirror_links import MirrorTopic
from broker_cy.admin.share_offsets import ShareOffsets


class Wanted(NamedTuple):
    """An offset to commit in the target, with the text that the group has committed."""

    offset: int
    metadata: str


def equal_offsets(
    offsets: Committed, mirrors: Mapping[str, list[MirrorTopic]], ends: Mapping[TopicPartition, int]
) -> dict[TopicPartition, Wanted]:
    """Return the offsets of a group of the source for the mirrors of its topics. An offset behind the end of a mirror
    becomes that end: the records before it are lost if the source is, and a consumer that asks for more would begin
    again as auto.offset.reset says. `ends` are those of the mirrors; without one, there is no offset.
    """
    found = {}
    for key, committed in offsets.items():
        for remote in _remotes(key, mirrors):
            if remote in ends:
                found[remote] = Wanted(min(committed.offset, ends[remote]), committed.metadata)
    return found


def share_starts(
    offsets: ShareOffsets, mirrors: Mapping[str, list[MirrorTopic]], ends: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """The same for the start offsets of a share group."""
    found = {}
    for key, offset in offsets.items():
        for remote in _remotes(key, mirrors):
            if offset.start is not None and remote in ends:
                found[remote] = min(offset.start, ends[remote])
    return found


def _remotes(key: TopicPartition, mirrors: Mapping[str, list[MirrorTopic]]) -> Iterator[TopicPartition]:
    for mirror in mirrors.get(key.topic, ()):
        if mirror.link is not None and key.partition < mirror.partitions:
            yield TopicPartition(mirror.name, key.partition)


def to_commit(
    wanted: Mapping[TopicPartition, int], present: Mapping[TopicPartition, int], synced: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Return the offsets to commit in the target, where the group has `present`, and this process has committed
    `synced` last. An offset does not go back, unless the group went back in the source, and has not moved in the
    target since.
    """
    return {
        key: offset
        for key, offset in wanted.items()
        if (there := present.get(key)) is None or offset > there or (offset < there and there == synced.get(key))
    }
