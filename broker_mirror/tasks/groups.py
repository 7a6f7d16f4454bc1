"""The groups of the source whose offsets are translated, and the offsets to commit for them in the target."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from broker_cy.admin.group_offsets import Committed, CommittedOffset
from broker_cy.admin.group_values import CLASSIC, CONSUMER, SHARE, STREAMS, WITHOUT_MEMBERS, GroupListing
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.share_offsets import ShareOffsets
from broker_cy.client.consumer_protocol import PROTOCOL_TYPE
from broker_mirror.filters import NameFilter
from broker_mirror.flows import Flow
from broker_mirror.tasks.checkpoints import LastCheckpoint
from broker_mirror.translation import Translation

ABSENT = "Absent"
"""The state of a group that the target does not have."""


def committing_groups(groups: NameFilter, listings: Iterable[GroupListing]) -> list[str]:
    """Return the groups with committed offsets that the filter takes: of consumers (of both protocols), of Kafka
    Streams, and those whose offsets were committed without members.
    """
    return [
        each.group_id
        for each in listings
        if groups.takes(each.group_id)
        and (each.group_type or CLASSIC) in (CLASSIC, CONSUMER, STREAMS)
        and each.protocol_type in (PROTOCOL_TYPE, STREAMS, "")
    ]


def share_groups(groups: NameFilter, listings: Iterable[GroupListing]) -> list[str]:
    """Return the share groups that the filter takes."""
    return [each.group_id for each in listings if each.group_type == SHARE and groups.takes(each.group_id)]


def may_commit(state: str) -> bool:
    """Whether a group of the target in this state takes offsets: it has no members there."""
    return state == ABSENT or state in WITHOUT_MEMBERS


def relevant(flow: Flow, groups: Mapping[str, Committed]) -> dict[str, Committed]:
    """Return the groups with an offset in a topic that is copied."""
    return {
        group: offsets for group, offsets in groups.items() if any(flow.copies_topic(each.topic) for each in offsets)
    }


def plan_offsets(
    checkpoints: Iterable[LastCheckpoint],
    state: str,
    committed: Committed,
    synced: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """Return the offsets to commit for a group in the target, from its checkpoints.

    `state` is that of the group in the target, ABSENT without one: with members, nothing is committed. `committed` are
    its offsets there, and `synced` those that this process has committed last. An offset grows, or goes back with the
    source; but the offset of a group that has gone on in the target does not go back.
    """
    if not may_commit(state):
        return {}
    found = {}
    for last in checkpoints:
        wanted = last.checkpoint.target_offset
        key = TopicPartition(last.checkpoint.topic, last.checkpoint.partition)
        if _replaces(wanted, committed.get(key), last.went_back_from, synced.get(key)):
            found[key] = wanted
    return found


def _replaces(wanted: int, present: CommittedOffset | None, went_back_from: int | None, synced: int | None) -> bool:
    if present is None or wanted > present.offset:
        return True
    return went_back_from is not None and wanted < present.offset and present.offset in (went_back_from, synced)


def plan_share_offsets(
    flow: Flow, source: ShareOffsets, translation: Translation, state: str, target: ShareOffsets
) -> dict[TopicPartition, int]:
    """Return the start offsets to set for a share group in the target, which has no members there. They only grow:
    records that are acknowledged are not delivered again.
    """
    if not may_commit(state):
        return {}
    found = {}
    for (topic, partition), offset in source.items():
        if offset.start is None or not flow.copies_topic(topic):
            continue
        wanted = translation.translate(topic, partition, offset.start)
        if wanted is None:
            continue
        key = TopicPartition(flow.remote_topic(topic), partition)
        present = target.get(key)
        if present is None or present.start is None or wanted > present.start:
            found[key] = wanted
    return found
