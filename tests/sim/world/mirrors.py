"""Two clusters of a world: the second one mirrors topics of the first one (docs/mirror.md, Link flows). The committed
batches of both, and their comparison.

A batch of a leader epoch below those of a promotion is one of the first cluster, any other one is of the second. Each
committed batch is at the same offset, with the same epoch and checksum, wherever it is a copy. So:

- a mirror has, and shows, only what is committed in its source;
- after a promotion, the partition has the records of the source up to the offset of the promotion, and the transactions
  that were open there are aborted;
- after a reversal, the first cluster has what the second one has, and its leaders kept all that was equal before.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from broker_cy.controller.mirror_ops import PROMOTION_EPOCHS, promotion_start
from broker_cy.replica.replica import Role
from broker_cy.wire.records import decode_batches
from tests.history.operations import Assign, Place, Poll, Read
from tests.sim.world.clients.base import value_of
from tests.sim.world.clients.mirrored import (
    BACK,
    LINK,
    TOPICS,
    LastMirrorReader,
    MirrorWriter,
    PromotedReader,
    Reverser,
    promoted_place,
)
from tests.sim.world.cluster import CLUSTER, TARGET, Cluster, Lagging
from tests.sim.world.network import PORT

if TYPE_CHECKING:
    from broker_cy.replica.partition import Partition
    from broker_cy.storage.log import Log
    from broker_cy.wire.record import Record
    from broker_cy.wire.records import Batch
    from tests.sim.world.clients.base import Client
    from tests.sim.world.machine import Machine
    from tests.sim.world.plan import Plan
    from tests.sim.world.world import World

READ_BYTES = 1 << 20
# A node that nothing happened to for so long has noted all that it has committed.
CALM_US = 1_000_000
Key = tuple[str, int]
"""(topic, partition)."""
KEYS: tuple[Key, ...] = tuple((topic, index) for topic, count in TOPICS.items() for index in range(count))


class Content(NamedTuple):
    """The checksum covers everything in a batch but its base offset and its leader epoch."""

    last_offset: int
    leader_epoch: int
    crc: int


def links_of(plan: Plan, root: str) -> dict[str, str]:
    """The setting of a node, and the files that it names: the links from each cluster to the other one."""
    directory = os.path.join(root, "links")
    os.makedirs(directory, exist_ok=True)
    for link, hosts in {LINK: set(plan.hosts) - set(plan.targets), BACK: set(plan.targets)}.items():
        servers = ",".join(f"{host}:{PORT}" for host in sorted(hosts))
        with open(os.path.join(directory, f"{link}.properties"), "w", encoding="utf-8") as file:
            file.write(f"bootstrap.servers={servers}\n")
    return {"brokercy.mirror.links.dir": directory}


def batches(log: Log, start: int, end: int) -> Iterator[Batch]:
    """The batches with records from `start` on and before `end`."""
    at = max(start, log.log_start_offset)
    while at < end and (part := log.read_slice(at, None, READ_BYTES, True)) is not None:
        for batch in decode_batches(part.read()):
            if batch.last_offset >= start and batch.base_offset < end:
                yield batch
            at = batch.last_offset + 1


def leader_of(cluster: Cluster, key: Key) -> Partition | None:
    """A leader of a partition; one that was deposed may not know it yet."""
    for machine in cluster.machines.values():
        if machine.server is not None and machine.is_started:
            partition = machine.server.broker.partitions.get(*key)
            if partition is not None and partition.offline is None and partition.replica.role == Role.LEADER:
                return partition
    return None


def log_of(cluster: Cluster, key: Key) -> Log | None:
    """The log of the leader of a partition whose replicas are all in sync: others learn of an epoch by its records."""
    partition = leader_of(cluster, key)
    return None if partition is None else partition.log


def _contents(log: Log, start: int, end: int) -> dict[int, Content]:
    return {
        each.base_offset: Content(each.last_offset, each.leader_epoch, each.crc) for each in batches(log, start, end)
    }


class Mirrors:
    """`promoting` are the topics whose promotion was requested, `promoted` those whose promotion was answered."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._source, self._target = world.clusters[CLUSTER], world.clusters[TARGET]
        self.promoting: set[str] = set()
        self.promoted: set[str] = set()
        self.is_reversed = False
        # The committed batches of the first cluster, and those of the second one after a promotion.
        self._original: defaultdict[Key, dict[int, Content]] = defaultdict(dict)
        self._promoted: defaultdict[Key, dict[int, Content]] = defaultdict(dict)
        # Copies of batches that no node has shown as committed yet: the one that did may have ended at once.
        self._early: dict[tuple[bool, Key, int], Content] = {}
        # What a node of the home cluster committed and deleted in one turn, so that no node shows it any more. A copy
        # may have it.
        self._deleted: defaultdict[tuple[bool, Key], list[range]] = defaultdict(list)
        # By node and partition: its process, and the offset up to which its batches are known.
        self._seen: dict[tuple[str, Key], tuple[int, int]] = {}
        # Up to which offset leaders of the first cluster keep their logs after the reversal; and the partitions that
        # keep all of them, because they share nothing with those of the second one.
        self._kept: dict[Key, int] = {}
        self._unrelated: set[Key] = set()
        self._readers: list[PromotedReader] = []

    # --- after each turn of a node

    def check(self, machine: Machine) -> None:
        """Raises AssertionError if a node has committed a batch without an original, or copies what it had."""
        if not machine.is_broker:
            return
        assert machine.server is not None
        in_target = machine.cluster is self._target
        for key in KEYS:
            partition = machine.server.broker.partitions.get(*key)
            if partition is None or partition.offline is not None or partition.unopened:
                continue
            where = machine.host, key
            life, seen = self._seen.get(where, (-1, 0))
            high = partition.high_watermark
            # After a reversal it goes back.
            seen = min(seen, high) if life == machine.ends else 0
            if life == machine.ends and seen < partition.log.log_start_offset:
                self._deleted_at_once(key, range(seen, partition.log.log_start_offset), in_target=in_target)
            if high > seen:
                for base, content in _contents(partition.log, seen, high).items():
                    self._note(machine, key, base, content, in_target=in_target)
            self._seen[where] = machine.ends, high
            if not in_target and key in self._kept and partition.replica.role == Role.LEADER:
                end = partition.log.log_end_offset
                assert end >= self._kept[key], (
                    f"{machine.host} leads {key} with the end {end}, and had everything up to {self._kept[key]}"
                )

    def _deleted_at_once(self, key: Key, offsets: range, *, in_target: bool) -> None:
        self._deleted[in_target, key].append(offsets)
        known = (self._promoted if in_target else self._original)[key]
        for base in [at for is_promoted, of, at in self._early if (is_promoted, of) == (in_target, key)]:
            if base in offsets:
                known[base] = self._early.pop((in_target, key, base))

    def _note(self, machine: Machine, key: Key, base: int, content: Content, *, in_target: bool) -> None:
        is_promoted = content.leader_epoch >= PROMOTION_EPOCHS
        known = (self._promoted if is_promoted else self._original)[key]
        is_home = in_target == is_promoted
        if is_home:
            before = known.setdefault(base, content)
            assert before == content, f"{machine.host} has {content} at {base} of {key}, and others had {before}"
            early = self._early.pop((is_promoted, key, base), content)
            assert early == content, f"{machine.host} has {content} at {base} of {key}, and its copy is {early}"
        elif base in known:
            assert known[base] == content, (
                f"{machine.host} has {content} at {base} of {key}, and the original is {known[base]}"
            )
        elif any(base in offsets for offsets in self._deleted[is_promoted, key]):
            known[base] = content
        else:
            home = self._target if is_promoted else self._source
            assert not home.is_calm_since(self._world.time.now_us - CALM_US), (
                f"{machine.host} shows {content} at {base} of {key}, which is not committed in the other cluster"
            )
            early = self._early.setdefault((is_promoted, key, base), content)
            assert early == content, f"{machine.host} has {content} at {base} of {key}, and others have {early}"

    def may_go_back(self, machine: Machine, topic: str) -> bool:
        """Whether committed records may be truncated: those that the other cluster does not have, after a reversal."""
        return self.is_reversed and machine.cluster is self._source and topic in self.promoted

    # --- at the end

    def behind(self) -> list[Lagging]:
        """The mirrors that lack something, or have something else than their source."""
        found = []
        for key in KEYS:
            if (key[0] in self.promoted) != self.is_reversed or key in self._unrelated:
                continue
            logs = [log_of(cluster, key) for cluster in (self._source, self._target)]
            ends = [None if log is None else log.log_end_offset for log in logs]
            if logs[0] is None or logs[1] is None or ends[0] != ends[1]:
                found.append(Lagging(f"{key} (ends {ends})"))
                continue
            start = max(log.log_start_offset for log in logs if log is not None)
            contents = [_contents(log, start, log.log_end_offset) for log in logs if log is not None]
            if contents[0] != contents[1]:
                differ = sorted(set(contents[0].items()) ^ set(contents[1].items()))
                found.append(Lagging(f"{key} ({len(differ)} batches differ, the first is {differ[0]})"))
        return found

    def last_readers(self) -> list[Client]:
        """Readers of everything in the second cluster."""
        levels = (False, True)
        self._readers = [PromotedReader(self._world, f"promoted-{each}", TARGET, committed=each) for each in levels]
        return [
            *self._readers,
            *(LastMirrorReader(self._world, f"mirrored-{each}", TARGET, committed=each) for each in levels),
        ]

    def check_end(self) -> None:
        """Raises AssertionError if a copy has no original, or a promoted topic has not what its source had. Notes what
        was read in promoted topics beyond that.
        """
        assert not self._early, f"copies without an original: {self._early}"
        for reader in self._readers:
            self._check_promoted(reader)
        self._readers = []

    def _check_promoted(self, reader: PromotedReader) -> None:
        begins: dict[Place, int | None] = {}
        ends: dict[Place, int] = {}
        later: list[Read] = []
        for key in [each for each in KEYS if each[0] in self.promoted]:
            logs = [log_of(cluster, key) for cluster in (self._source, self._target)]
            source, target = logs
            assert source is not None
            assert target is not None
            begin = promotion_start(target.epochs.entries)
            assert begin >= 0, f"{key} was promoted, and its leader epochs are {target.epochs.entries}"
            place = promoted_place(*key)
            reads = [read for read in reader.reads if read.place == place]
            start = max(source.log_start_offset, target.log_start_offset)
            expected = readable(source, begin, committed=reader.committed)
            copied = [(read.offset, read.value) for read in reads if start <= read.offset < begin]
            assert copied == [each for each in expected if each[0] >= start], (
                f"{reader.name}: {key} was promoted at {begin}: {copied} is not {expected}"
            )
            begins[place], ends[place] = begin, max(begin, target.log_end_offset)
            later += [read for read in reads if read.offset >= begin]
        recorder = self._world.recorder
        recorder.add(Assign(reader.name, reader.committed, begins))
        recorder.add(Poll(reader.name, recorder.now(), tuple(later), ends))

    # --- the reversal

    def reverse(self) -> list[Client]:
        """From now on the promoted topics of the first cluster may become mirrors; the clients for that."""
        self.is_reversed = True
        for key in [each for each in KEYS if each[0] in self.promoted]:
            source, target = log_of(self._source, key), log_of(self._target, key)
            assert source is not None
            assert target is not None
            start = max(source.log_start_offset, target.log_start_offset)
            here, there = (_contents(log, start, log.log_end_offset) for log in (source, target))
            self._kept[key] = start
            for (base, content), other in zip(sorted(here.items()), sorted(there.items()), strict=False):
                if (base, content) != other:
                    break
                self._kept[key] = content.last_offset + 1
            if source.log_start_offset == source.log_end_offset:
                # It is empty, and begins again.
                self._kept[key] = 0
            elif self._kept[key] == start:
                # All common records were deleted. A mirror does not truncate its whole log. If only the second cluster
                # deleted more, the logs may have parted after the first record that is left here.
                self._unrelated.add(key)
                self._kept[key] = source.log_end_offset if start == source.log_start_offset else source.log_start_offset
        return [
            Reverser(self._world, f"reverser-{CLUSTER}", CLUSTER),
            MirrorWriter(self._world, f"mirrorwriter9-{TARGET}", TARGET),
        ]


def readable(log: Log, end: int, *, committed: bool) -> list[tuple[int, str]]:
    """Offset and value of the records before `end`; if `committed`, without those of transactions that were not
    committed there.
    """
    return [(each.offset, value_of(each)) for each in records_in(batches(log, 0, end), committed=committed)]


def records_in(found: Iterable[Batch], *, committed: bool) -> list[Record]:
    """The records of batches that follow one another, by offset; see `readable`."""
    records: list[Record] = []
    is_open: defaultdict[int, list[Record]] = defaultdict(list)
    for batch in found:
        if batch.is_control:
            # The key is version and type; type 0 is an abort. The cleaner may leave a batch without records.
            markers, ended = batch.records(), is_open.pop(batch.producer_id, [])
            records += ended if markers and bytes(markers[0].key or b"")[2:4] != b"\0\0" else []
        elif committed and batch.is_transactional:
            is_open[batch.producer_id] += batch.records()
        else:
            records += batch.records()
    return sorted(records, key=lambda each: each.offset)
