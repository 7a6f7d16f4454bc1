"""Two clusters of a world between which processes of broker-mirror copy (docs/mirror.md): what both have in common.

Exactly once: each committed record of the source is once in the target, in the same order, and no other record is. Only
records that were deleted in the source before they were copied may be missing, and the status of a process has named
each of them. The copy of a compacted topic has the same last record of each key.

A checkpoint of a group, and the offset that the flow commits for it in the target, never pass a record that the group
has not read.
"""

from __future__ import annotations

import re
from collections import defaultdict
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, NamedTuple

from broker_mirror.formats import checkpoints
from broker_mirror.formats.checkpoints import Checkpoint
from tests.sim.world import mirror_process
from tests.sim.world.clients.base import value_of
from tests.sim.world.clients.committers import Committer
from tests.sim.world.cluster import CLUSTER, TARGET, Cluster, Lagging
from tests.sim.world.mirror_process import SOURCE, flow_of, syncs_in_target
from tests.sim.world.mirrors import KEYS, Key, batches, leader_of, log_of, records_in
from tests.support.power import replaced

if TYPE_CHECKING:
    from broker_cy.client.mirror_status import FlowStatus
    from broker_cy.wire.record import Record
    from broker_cy.wire.records import Batch
    from tests.sim.world.world import World

NO_OFFSET = -1
# The partitions that are compacted and copied.
COMPACTED: tuple[Key, ...] = (("c0", 0),)
# The time between two looks at both sides: each one reads all logs.
LOOKS_US = 200_000
# The problem that names records that were deleted before they were copied.
DELETED = re.compile(r"offsets (\d+) to (\d+) were deleted in the source")


class Sides(NamedTuple):
    """Offset and value of the committed records of a partition: those that the source has ever had, which are `kept`
    there from `start` on, and those of the target. `end`: of the target.
    """

    source: list[tuple[int, str]]
    start: int
    target: list[tuple[int, str]]
    end: int


class Copies:
    """The knowledge of the world about a copy flow."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._source, self._target = world.clusters[CLUSTER], world.clusters[TARGET]
        self._checkpoints_topic = flow_of(world).checkpoints_topic
        # By partition of the source: the batches before each deletion, the offset up to which records may be deleted,
        # and the offsets that a status named as deleted.
        self._kept: defaultdict[Key, dict[int, Batch]] = defaultdict(dict)
        self._deleted: defaultdict[Key, int] = defaultdict(int)
        self._named: defaultdict[Key, set[int]] = defaultdict(set)
        # The checkpoints before this offset were judged; the last one of each group, topic of the target and partition.
        self._judged = 0
        self._points: dict[tuple[str, str, int], Checkpoint] = {}
        # The result of the last look, and when the next one is due.
        self._found: list[Lagging] = []
        self._due_us = 0

    def installed(self) -> AbstractContextManager[None]:
        return replaced(mirror_process.seams(self._world))

    # --- deletions in the source

    def keep(self, key: Key) -> int:
        """Keep the committed records of a partition of the source. Returns the offset up to which they were kept; 0
        without a leader now.
        """
        partition = leader_of(self._source, key)
        if partition is None or partition.unopened or partition.high_watermark <= 0:
            return 0
        end = partition.high_watermark
        self._kept[key].update((each.base_offset, each) for each in batches(partition.log, 0, end))
        return end

    def deleting(self, key: Key, offset: int) -> None:
        """The records before this offset may be deleted from now on."""
        self._deleted[key] = max(offset, self._deleted[key])

    def take_names(self, status: FlowStatus) -> None:
        """Take the deleted records that the status of a process names."""
        for part in status.partitions:
            if part.problem is not None and (found := DELETED.match(part.problem)) is not None:
                self._named[part.topic, part.partition].update(range(int(found[1]), int(found[2]) + 1))

    # --- at the end

    def behind(self) -> list[Lagging]:
        """The partitions that were not copied to their ends, and groups whose offsets were not. Raises AssertionError
        if the target has anything else than the source has.
        """
        if self._world.time.now_us >= self._due_us:
            self._found = self._look()
            self._due_us = self._world.time.now_us + LOOKS_US
        return self._found

    def _look(self) -> list[Lagging]:
        # A leader may still move to its preferred replica.
        if moving := [Lagging(f"{key[0]}-{key[1]} (no leader)") for key in KEYS if log_of(self._source, key) is None]:
            return moving
        sides = {key: self._sides(key) for key in KEYS}
        found = [each for key, both in sides.items() for each in self._records_behind(key, both)]
        found += [each for key in COMPACTED for each in self._compacted_behind(key)]
        self._judge_checkpoints(sides)
        return found or self._groups_behind(sides)

    def _sides(self, key: Key) -> Sides:
        here, there = log_of(self._source, key), log_of(self._target, _remote(key))
        assert here is not None
        every = self._kept[key] | {each.base_offset: each for each in batches(here, 0, here.log_end_offset)}
        source = records_in([every[base] for base in sorted(every)], committed=True)
        target = _committed(self._target, _remote(key))
        end = 0 if there is None else there.log_end_offset
        return Sides(_values(source), here.log_start_offset, _values(target), end)

    def _records_behind(self, key: Key, sides: Sides) -> list[Lagging]:
        """Raises AssertionError if the copy has other records than the source, or lacks some before its last one that
        were not deleted, or that no status has named.
        """
        name = f"{key[0]}-{key[1]}"
        places = {value: at for at, (_, value) in enumerate(sides.source)}
        done = 0
        for value in [value for _, value in sides.target]:
            at = places.get(value, -1)
            assert at >= done, _difference(name, sides)
            self._check_missing(key, sides, done, at)
            done = at + 1
        left = sides.source[done:]
        count = sum(offset >= sides.start for offset, _ in left)
        if count:
            return [Lagging(f"{name} ({count} of {len(sides.source)} records were not copied)")]
        if done and not self._named[key].issuperset(offset for offset, _ in left):
            return [Lagging(f"{name} ({len(left)} records were deleted before they were copied, and were not named)")]
        return []

    def _check_missing(self, key: Key, sides: Sides, done: int, at: int) -> None:
        """A flow begins at the first record that is left, and names the deletion of later ones."""
        for offset, value in sides.source[done:at]:
            assert offset < self._deleted[key], f"{value} at {offset} of {key} is not in the copy, but the next one is"
            assert not done or offset in self._named[key], (
                f"{value} at {offset} of {key} was deleted before it was copied, and no status has named it"
            )

    def _compacted_behind(self, key: Key) -> list[Lagging]:
        """Raises AssertionError if records of a compacted topic are twice in the copy, or in another order."""
        source, target = _committed(self._source, key), _committed(self._target, _remote(key))
        values = [value for _, value in _values(target)]
        assert len(set(values)) == len(values), f"{key}: records are twice in the copy: {values}"
        both = set(values).intersection(value for _, value in _values(source))
        orders = [[value for _, value in _values(side) if value in both] for side in (source, target)]
        assert orders[0] == orders[1], f"{key}: the order of the copy is another one: {orders}"
        lasts = [{each.key: value_of(each) for each in side} for side in (source, target)]
        return [] if lasts[0] == lasts[1] else [Lagging(f"{key} (the last records of the keys are {lasts})")]

    # --- groups

    def _judge_checkpoints(self, sides: dict[Key, Sides]) -> None:
        log = log_of(self._target, (self._checkpoints_topic, 0))
        if log is None:
            return
        end = log.log_end_offset
        for batch in batches(log, self._judged, end):
            for record in batch.records():
                if record.offset >= self._judged:
                    self._judge(checkpoints.decode(record.key, record.value), sides)
        self._judged = end

    def _judge(self, found: Checkpoint, sides: dict[Key, Sides]) -> None:
        """Raises AssertionError if a checkpoint passes a record that the group has not read, or went back although the
        group did not.
        """
        both = sides[found.topic.removeprefix(f"{SOURCE}."), found.partition]
        read = {value for at, value in both.source if at < found.source_offset}
        passed = [value for at, value in both.target if at < found.target_offset and value not in read]
        assert not passed, f"{found} passes {passed}"
        assert found.target_offset <= both.end, f"{found} is after the end, {both.end}"
        key = found.group, found.topic, found.partition
        before = self._points.get(key, found)
        # A process that leads no longer, and does not know it yet, may write an older one.
        assert (
            found.target_offset >= before.target_offset
            or found.source_offset < before.source_offset
            or len(self._world.processes) > 1
        ), f"{found} follows {before}"
        self._points[key] = found

    def _groups_behind(self, sides: dict[Key, Sides]) -> list[Lagging]:
        """The groups that would read records again, or all of them. Raises AssertionError if one would skip some."""
        found = []
        committers = [each for each in self._world.all_clients if isinstance(each, Committer)]
        for committer in committers:
            for key, offset in committer.highest.items():
                both = sides[key]
                name = f"{committer.group}, {key}"
                copied = {value for _, value in both.target}
                done = {value for at, value in both.source if at < committer.last[key]} & copied
                translated = self._translated(committer.group, key)
                # Offset syncs in the source may be lost with the process that has copied their records.
                is_exact = syncs_in_target(self._world)
                if translated == NO_OFFSET:
                    if done and is_exact:
                        found.append(Lagging(name))
                    continue
                skipped = {value for at, value in both.target if at < translated}
                unread = skipped.difference(value for at, value in both.source if at < offset)
                assert not unread, f"{name}: read up to {offset}, and would go on at {translated}, after {unread}"
                assert translated <= both.end, f"{name}: at {translated}, and the copy ends at {both.end}"
                if is_exact and key not in committer.went_back and skipped != done:
                    found.append(Lagging(f"{name} ({len(done - skipped)} records that it has read would come again)"))
        return found

    def _translated(self, group: str, key: Key) -> int:
        """The offset that the target has for the copy of a partition."""
        for machine in self._target.machines.values():
            assert machine.server is not None
            for runtime in machine.server.broker.groups.runtimes.values():
                found = runtime.machine.offsets.get(group, *_remote(key))
                if found is not None:
                    return int(found.committed_offset)
        return NO_OFFSET


def _remote(key: Key) -> Key:
    return f"{SOURCE}.{key[0]}", key[1]


def _committed(cluster: Cluster, key: Key) -> list[Record]:
    """The committed records of a partition whose replicas are in sync; none without a log."""
    log = log_of(cluster, key)
    return [] if log is None else records_in(batches(log, 0, log.log_end_offset), committed=True)


def _values(records: list[Record]) -> list[tuple[int, str]]:
    return [(each.offset, value_of(each)) for each in records]


def _difference(name: str, sides: Sides) -> str:
    """A sentence about the first record that is not that of the source, or comes again."""
    copied = [value for _, value in sides.target]
    places = {value: at for at, (_, value) in enumerate(sides.source)}
    done = -1
    for at, value in enumerate(copied):
        if places.get(value, -1) <= done:
            twice = sorted({each for each in copied if copied.count(each) > 1})
            before, after = copied[max(0, at - 3) : at], copied[at : at + 3]
            place = "no committed record of the source" if value not in places else f"record {places[value]} of it"
            return f"{name}: {after} follow {before} in the copy, and {value} is {place}; twice: {twice[:5]}"
        done = places[value]
    return f"{name}: the copy is another one"
