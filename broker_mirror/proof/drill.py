"""Fails a group over on a copy of its offsets, without touching the group: `broker-mirror drill`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from broker_cy.admin import AdminClient
from broker_cy.admin.group_offsets import Committed
from broker_cy.admin.metadata import TopicPartition
from broker_cy.client.errors import ClientError, Failure
from broker_cy.core.errors import WireError
from broker_cy.wire.compression import CorruptPayload, PayloadTooLarge
from broker_cy.wire.digest import PAYLOAD_BYTES_MAX, record_hashes
from broker_cy.wire.records import Batch
from broker_mirror.flows import FlowKind
from broker_mirror.formats import checkpoints
from broker_mirror.formats.checkpoints import Checkpoint
from broker_mirror.formats.fields import DamagedRecord
from broker_mirror.proof.batches import BatchReader, Rate
from broker_mirror.proof.clients import Clusters, NotOfFlow, records_of, topics_of, translation_of
from broker_mirror.proof.drilling import DrillRow, Origin, counts, nearest
from broker_mirror.proof.ranges import Extent, Unaligned
from broker_mirror.proof.verify import extent_of, window_of
from broker_mirror.translation import Translation


@dataclass(frozen=True, slots=True)
class DrillResult:
    """The drill of a group in one flow. `skipped` are topics of the group that the flow does not copy."""

    group: str
    rows: list[DrillRow]
    skipped: list[str]
    committed_as: str | None = None

    @property
    def is_safe(self) -> bool:
        return all(row.is_safe for row in self.rows)


async def drill(of: Clusters, group: str, *, commit_as: str | None = None, bytes_per_s: int = 0) -> DrillResult:
    """Return the records that a group would read again or miss. `commit_as` is another group of the target that gets
    the offsets. Raises ClientError.
    """
    if commit_as == group:
        raise ClientError(Failure.INVALID, "--commit-as needs another name, or the group itself would be changed")
    committed = (await of.source.positions.fetch([group])).whole()[group]
    if not committed:
        text = f"{of.flow.pair.source} has no offsets of this group"
        raise NotOfFlow(Failure.INVALID, text, what=f"group {group}")
    rate = Rate(bytes_per_s, asyncio.get_running_loop().time)
    translation = await translation_of(of)
    known = await _checkpoints(of, group)
    there = (await of.target.positions.fetch([group])).whole()[group]
    topics = await topics_of(of)
    rows = []
    skipped: dict[str, None] = {}
    for key, position in sorted(committed.items()):
        if key.topic not in topics:
            if not of.flow.copies_topic(key.topic):
                skipped[key.topic] = None
                continue
            reason = f"{of.flow.pair.source} has no such topic any more"
            rows.append(_unknown(of, key, position.offset, reason))
            continue
        if key.partition >= (topics[key.topic][1] or 0):
            rows.append(_unknown(of, key, position.offset, "the target has no such partition"))
            continue
        rows.append(await _row(of, key, position.offset, translation, known, there, rate))
    if commit_as is not None:
        is_shared = group in (await of.source.positions.fetch_by_type([group]))[1]
        await _commit(of.target, commit_as, rows, is_shared=is_shared)
    return DrillResult(group, rows, list(skipped), commit_as)


async def _checkpoints(of: Clusters, group: str) -> dict[tuple[str, int], Checkpoint]:
    """Return the newest checkpoints of a group, by remote topic and partition."""
    found: dict[tuple[str, int], Checkpoint] = {}
    if of.flow.kind is FlowKind.LINK:
        return found
    async for record in records_of(of.target, of.flow.checkpoints_topic):
        try:
            each = checkpoints.decode(record.key, record.value)
        except DamagedRecord:
            continue
        if each.group == group:
            found[each.topic, each.partition] = each
    return found


def _unknown(of: Clusters, key: TopicPartition, committed: int, problem: str) -> DrillRow:
    remote = of.flow.remote_topic(key.topic)
    return DrillRow(key.topic, key.partition, remote, committed, None, Origin.NONE, problem=problem)


def _continues(
    of: Clusters,
    key: TopicPartition,
    committed: int,
    translation: Translation,
    known: Mapping[tuple[str, int], Checkpoint],
    there: Committed,
) -> tuple[int | None, Origin]:
    """Return the offset at which the group would continue in the target."""
    remote = TopicPartition(of.flow.remote_topic(key.topic), key.partition)
    if (present := there.get(remote)) is not None:
        return present.offset, Origin.TARGET
    if of.flow.kind is FlowKind.LINK:
        return committed, Origin.EQUAL
    if (checkpoint := known.get(remote)) is not None:
        return checkpoint.target_offset, Origin.CHECKPOINT
    offset = translation.translate(key.topic, key.partition, committed)
    return offset, Origin.NONE if offset is None else Origin.SYNC


async def _row(
    of: Clusters,
    key: TopicPartition,
    committed: int,
    translation: Translation,
    known: Mapping[tuple[str, int], Checkpoint],
    there: Committed,
    rate: Rate,
) -> DrillRow:
    remote = TopicPartition(of.flow.remote_topic(key.topic), key.partition)
    continues_at, origin = _continues(of, key, committed, translation, known, there)
    lag = (await extent_of(of.source, key)).end - committed

    def failed(problem: str) -> DrillRow:
        return DrillRow(
            key.topic, key.partition, remote.topic, committed, continues_at, origin, lag=lag, problem=problem
        )

    target = await extent_of(of.target, remote)
    if continues_at is None and target.end == 0:
        # It has had no record yet: each auto.offset.reset leads to its begin.
        return DrillRow(key.topic, key.partition, remote.topic, committed, 0, origin, 0, 0, 0, lag)
    if continues_at is None:
        return failed("there is no checkpoint and no offset sync: the group begins as auto.offset.reset says")
    if not target.start <= continues_at <= target.end:
        return failed(f"the target has the offsets {target.start} to {target.end}: auto.offset.reset decides")
    try:
        window = await window_of(of, key, remote, translation)
    except Unaligned as error:
        return failed(str(error))
    ranges = translation.partition(key.topic, key.partition)
    first, remote_first = nearest(window, [] if ranges is None else ranges.ranges(), committed, continues_at)
    source_end = min(committed, window.source.end)
    read = await _count(of.source, key, Extent(first, source_end), rate)
    before = await _count(of.target, remote, Extent(remote_first, continues_at), rate)
    wanted = max(0, read.records - before.records)
    after = await _count(of.target, remote, Extent(continues_at, target.end if wanted else continues_at), rate, wanted)
    found = counts(read.records, before.records, after.records)
    times = (after.first_ms, read.last_ms)
    again_ms = 0 if not found.again or None in times else max(0, (times[1] or 0) - (times[0] or 0))
    return DrillRow(
        key.topic, key.partition, remote.topic, committed, continues_at, origin, *found, again_ms=again_ms, lag=lag
    )


@dataclass(slots=True)
class _Counted:
    records: int = 0
    first_ms: int | None = None
    last_ms: int | None = None


async def _count(client: AdminClient, key: TopicPartition, extent: Extent, rate: Rate, most: int = 1 << 62) -> _Counted:
    """Count committed records, until there are `most`; only batches at both ends are decoded."""
    reader = BatchReader(client, key, extent.start, extent.end, rate)
    found = _Counted()
    last: Batch | None = None
    while not reader.ended and found.records < most:
        for batch in await reader.read():
            if not (count := _records_in(batch, extent)):
                continue
            if found.first_ms is None:
                found.first_ms = _times(batch, extent)[0]
            found.records += count
            last = batch
    if last is not None:
        found.last_ms = _times(last, extent)[1]
    return found


def _records_in(batch: Batch, extent: Extent) -> int:
    if batch.base_offset >= extent.start and batch.last_offset < extent.end:
        return batch.count
    return len(record_hashes(batch, extent.start, extent.end)[0]) // 8


def _times(batch: Batch, extent: Extent) -> tuple[int | None, int | None]:
    """Return the timestamps of the first and of the last record of a batch in an extent; None if it is damaged."""
    try:
        records = batch.records(PAYLOAD_BYTES_MAX)
    except (WireError, CorruptPayload, PayloadTooLarge):
        return None, None
    times = [each.timestamp for each in records if extent.start <= each.offset < extent.end]
    return (times[0], times[-1]) if times else (None, None)


async def _commit(target: AdminClient, group: str, rows: list[DrillRow], *, is_shared: bool) -> None:
    offsets = {
        TopicPartition(row.remote_topic, row.partition): row.continues_at
        for row in rows
        if row.continues_at is not None
    }
    if offsets:
        calls = target.share_offsets if is_shared else target.group_offsets
        (await calls.alter(group, offsets)).whole()
