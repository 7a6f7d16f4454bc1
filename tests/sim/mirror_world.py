"""The world of the mirror simulation: the replicas of replica_world mirror a partition of another cluster
(mirror_source). Local processes end, lose power and stop; the source elects leaders, loses records in unclean
elections, deletes records, and answers with old metadata. Then the faults end, the topic is promoted and written to,
and the source becomes a mirror of it.

The leaders decide with the real state machine (replica.mirror), on the real one of their replicas.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable

from broker_cy.controller.mirror_ops import PROMOTION_EPOCHS
from broker_cy.core.errors import ErrorCode
from broker_cy.metadata.image import PartitionImage
from broker_cy.replica import following
from broker_cy.replica.mirror import Act, Mirror
from broker_cy.replica.replica import Replica, Role
from broker_cy.replica.throttle import UNLIMITED
from tests.sim.mirror_source import Reply, SourceCluster
from tests.sim.replica_checks import Checks
from tests.sim.replica_node import Batch, Node
from tests.sim.replica_world import (
    LAG_MAX_MS,
    NEVER_FLUSHED,
    RECOVERY_MS,
    THROTTLE_WINDOW_MS,
    THROTTLE_WINDOWS,
    Faults,
    World,
)


class MirrorChecks(Checks):
    """Those of replication, and:

    - Each batch of a log is one that the source had at this offset in this epoch, or one of a promoted leader.
    - No record is visible that was not committed at the source.
    - Where no election of the source loses records, nothing that is committed here changes. Elsewhere a truncation
      changes it, as it did at the source.
    """

    def __init__(self, min_isr: int, source: SourceCluster) -> None:
        super().__init__(min_isr, LAG_MAX_MS, UNLIMITED, (THROTTLE_WINDOWS, THROTTLE_WINDOW_MS))
        self.source = source
        self.is_mirror = True

    def after(self, node: Node, now_ms: int) -> None:
        if self.source.is_unclean and node.replica is not None:
            life, high = self.highs.get(node.node_id, (-1, -1))
            self.highs[node.node_id] = life, min(high, node.replica.high["offset"])
        super().after(node, now_ms)
        for batch in node.log.batches[-4:]:
            known = self.source.history.get((batch.base_offset, batch.epoch))
            assert known == batch or not self.is_mirror, f"{node.node_id} has {batch}, and the source {known}"

    def truncated(self, node: Node, removed: Iterable[Batch]) -> None:
        if not self.is_mirror:
            super().truncated(node, removed)
            return
        if not self.source.is_unclean:
            # A follower may have led, and have copied what its leader copies a little later: it acknowledges none of
            # that before it has truncated, and fetched it again.
            if node.is_leader:
                super().truncated(node, removed)
            return
        for batch in removed:
            if self.committed.get(batch.base_offset) == batch:
                del self.committed[batch.base_offset]
        for (leader, _), left in self.left.items():
            if leader == node.node_id:
                left.update((each, min(end, node.log.end_offset)) for each, end in left.items())

    def joined(self, node: Node, high: int) -> None:
        if not (self.source.is_unclean and self.is_mirror):
            super().joined(node, high)

    def compare(self, node: Node, high: int) -> None:
        if not (self.source.is_unclean and self.is_mirror):
            super().compare(node, high)


class MirrorWorld(World):
    """`run` mirrors under faults, recovers, promotes, writes, and reverses. Raises AssertionError."""

    has_mirrored = True

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.is_hasty = False
        self.throttle = UNLIMITED
        self.own = random.Random(f"mirror {seed}")
        self.source = SourceCluster(self.own, is_unclean=self.own.random() < 0.4)
        self.checks = MirrorChecks(self.min_isr, self.source)
        self.is_mirror = True
        self.is_calm = False  # the source has no faults any more
        self.mirrors: dict[int, tuple[int, Mirror]] = {}  # by node: its life, and the machine
        self.busy: dict[int, tuple[int, int]] = {}  # by node: its life, and until when an act is under way
        self.promoted = 0  # the leader epoch of the promotion
        self.raises = self.cuts = self.copied = 0

    # --- the course of the world

    def run(self, steps: int) -> None:
        self.at(30, self.disturb_source)
        super().run(steps)
        self.promote()
        self.reverse()

    def recover(self) -> None:
        self.faults = Faults()
        self.silences.end()
        self.is_calm = True
        self.source.deposed = None
        self.source.commit(everything=True)
        assert self.go(self.is_mirrored, self.now_ms + RECOVERY_MS), f"not mirrored after the faults: {self!r}"

    def is_mirrored(self) -> bool:
        leader = self.source.leader
        if not self.is_in_sync():
            return False
        return all(
            [each for each in node.log.batches if each.end_offset > leader.start]
            == [each for each in leader.batches if each.end_offset > leader.start]
            for node in self.nodes.values()
        )

    def promote(self) -> None:
        """The topic becomes an ordinary one, in a leader epoch far above those of the source."""
        image = self.controller.image
        self.is_mirror = self.checks.is_mirror = False  # type: ignore[attr-defined]
        self.source.is_unclean = False
        self.mirrors.clear()
        self.promoted = image.leader_epoch + PROMOTION_EPOCHS
        self.raise_epoch(self.promoted)
        records = len(self.checks.acked)
        self.at(1, self.produce)
        assert self.go(lambda: len(self.checks.acked) > records + 5, self.now_ms + RECOVERY_MS), f"{self!r}"
        self.is_over = True
        assert self.go(self.is_in_sync, self.now_ms + RECOVERY_MS), f"not in sync after the promotion: {self!r}"

    def reverse(self) -> None:
        """The source, which went on alone, mirrors the promoted topic: it copies only what it does not have."""
        for _ in range(self.own.randint(0, 4)):
            self.own.choice([self.source.produce, self.source.elect])()
        old, target = self.source.leader, self.nodes[self.controller.image.leader]
        served = SourceCluster(self.own, is_unclean=False)
        served.leader.batches = list(target.log.batches)
        served.leader.epochs = target.log.epochs
        served.leader.epoch = self.controller.image.leader_epoch
        served.leader.start = target.log.log_start_offset
        served.leader.high = target.log.end_offset
        served.metadata = [served.look_up()._replace(leader_epoch=served.leader.epoch)]
        node = Node(1)
        node.log.restart_at(old.batches[0].base_offset if old.batches else old.start)
        for batch in old.batches:
            node.log.append(batch)
        node.log.log_start_offset = old.start
        node.log.written = node.log.durable = len(node.log.batches)
        # A leader has begun an epoch at the end of its log.
        node.log.epochs.assign(old.epoch, node.log.end_offset)
        common = [each for each in node.log.batches if each in target.log.batches]
        replica = node.replica = Replica(0)
        replica.open(node.log.end_offset, node.log.end_offset)
        replica.become(Role.LEADER, served.leader.epoch)
        mirror = Mirror(served.leader.epoch, served.topic_id)
        mirror.found(served.look_up(), node.log.epochs.latest_epoch)
        copied = 0
        for _ in range(10 + 2 * len(target.log.batches)):
            ask = mirror.ask(replica, node.log.epochs)
            assert ask is not None, f"{mirror.failure}"
            reply = served.leader.fetch(ask)
            step = self.judged(mirror, node, ask, reply)
            copied += step.append
            carry_out(node, step, reply.batches)
        base = max(node.log.base, target.log.base)
        here, there = ([each for each in log.batches if each.end_offset > base] for log in (node.log, target.log))
        assert here == there, f"{here[:2]}..{here[-2:]} is not {there[:2]}..{there[-2:]}"
        missing = [each for each in there if each not in common]
        assert copied == len(missing), f"copied {copied} batches, and {len(missing)} were missing"

    # --- the source

    def disturb_source(self) -> None:
        if self.is_calm:
            return
        self.at(self.own.randint(1, 60), self.disturb_source)
        what = self.own.random()
        if what < 0.5:
            self.source.produce()
        elif what < 0.9:
            self.source.commit()
        elif what < 0.912:
            self.source.elect()
            self.note(f"the source is led by {self.source.look_up()}")
        elif what < 0.93:
            self.source.deposed = None
        elif what < 0.935:
            self.source.delete()

    # --- instead of producers and DeleteRecords

    def produce(self) -> None:
        if not self.is_mirror:
            super().produce()

    def refuses(self, node: Node) -> bool:
        """A leader refuses producers until it has the metadata of the promotion."""
        assert node.replica is not None
        return super().refuses(node) or node.replica.leader_epoch < self.promoted

    def delete_records(self) -> None:
        pass

    # --- leaders

    def begin_epoch(self, node: Node, image: PartitionImage) -> None:
        if not self.is_mirror:
            super().begin_epoch(node, image)
            return
        life, mirror = self.mirrors.get(node.node_id, (-1, None))
        if mirror is None or life != node.life:
            mirror = Mirror(image.leader_epoch, self.source.topic_id)
            self.mirrors[node.node_id] = node.life, mirror
        mirror.led(image.leader_epoch)

    def after(self, node: Node) -> None:
        super().after(node)
        life, mirror = self.mirrors.get(node.node_id, (-1, None))
        if mirror is not None and life == node.life and node.is_leader:
            self.act(node, mirror)

    def act(self, node: Node, mirror: Mirror) -> None:
        """Do what the machine wants, unless an earlier act has no answer yet."""
        life, until_ms = self.busy.get(node.node_id, (-1, -1))
        if life == node.life and self.now_ms < until_ms:
            return
        replica = node.replica
        assert replica is not None
        want = mirror.want
        ask = mirror.ask(replica, node.log.epochs)
        if want is Act.NOTHING or (want is Act.FETCH and ask is None):
            return
        self.busy[node.node_id] = node.life, self.now_ms + 1_000
        life = node.life
        if want is Act.LOOK_UP:
            found = self.source.look_up()

            def take() -> None:
                mirror.found(found, node.log.epochs.latest_epoch)

            self.send(lambda: self.answer_mirror(node, life, take), may_be_late=True)
        elif want is Act.RAISE:
            assert mirror.source is not None
            epoch, wanted = replica.leader_epoch, mirror.source.leader_epoch
            self.send(lambda: self.raise_for(node, life, epoch, wanted), may_be_lost=True)
        elif ask is not None:
            asked = ask
            leader = self.source.leader_of(asked)
            self.send(lambda: self.serve(node, life, mirror, asked, leader.fetch(asked)), may_be_lost=True)

    def raise_for(self, node: Node, life: int, epoch: int, wanted: int) -> None:
        """AlterPartition of a leader, which the controller refuses if another leader epoch has begun."""
        image = self.controller.image
        if image.leader == node.node_id and image.leader_epoch == epoch and wanted > epoch:
            self.raise_epoch(wanted)
            self.raises += 1
        self.send(lambda: self.answer_mirror(node, life, lambda: None), may_be_lost=True)

    def raise_epoch(self, leader_epoch: int) -> None:
        image = self.controller.image
        self.controller.image = image._replace(leader_epoch=leader_epoch, partition_epoch=image.partition_epoch + 1)
        self.controller.version += 1
        self.spread()

    def serve(self, node: Node, life: int, mirror: Mirror, asked: following.Ask, reply: Reply) -> None:
        self.send(
            lambda: self.answer_mirror(node, life, lambda: self.take(node, mirror, asked, reply)), may_be_lost=True
        )

    def answer_mirror(self, node: Node, life: int, take: Callable[[], None]) -> None:
        if node.replica is None or node.life != life or not self.is_mirror:
            return
        self.busy.pop(node.node_id, None)
        take()
        self.after(node)

    def take(self, node: Node, mirror: Mirror, asked: following.Ask, reply: Reply) -> None:
        if not node.is_leader:
            return
        if reply.error not in (ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE):
            mirror.lost(asked.leader_epoch)
            self.busy[node.node_id] = node.life, self.now_ms + 50
            return
        step = self.judged(mirror, node, asked, reply)
        self.copied += step.append
        self.change(node, step, reply.batches)

    def judged(self, mirror: Mirror, node: Node, asked: following.Ask, reply: Reply) -> following.Step:
        assert node.replica is not None
        epochs, start = node.log.epochs, node.log.log_start_offset
        if reply.error == ErrorCode.NONE:
            step = mirror.take(node.replica, asked, reply.answer, epochs, start)
        elif mirror.is_expected(node.replica, asked, epochs):
            step = mirror.out_of_range(start, node.log.end_offset, reply.start, reply.end) or following.Step()
        else:
            step = following.Step(is_ignored=True)
        assert mirror.failure is None, mirror.failure
        return step

    def change(self, node: Node, step: following.Step, batches: list[Batch]) -> None:
        """Carry out a step of a leader."""
        replica, log = node.replica, node.log
        assert replica is not None
        if step.is_ignored:
            return
        self.cuts += step.truncate_to >= 0
        before = log.end_offset
        self.carry_out(node, step._replace(high_watermark=following.NONE, log_start_offset=following.NONE), batches)
        if step.truncate_to >= before:
            # Nothing but an epoch that has no records yet (log_truncation.truncate_to).
            log.epochs.truncate_from_end(log.end_offset)
        start = min(step.log_start_offset, replica.high["offset"])
        if start > log.log_start_offset:
            log.delete_before(start)

    def __repr__(self) -> str:
        mirrors = {each: (mirror.want, mirror.source) for each, (_, mirror) in self.mirrors.items()}
        source = self.source.leader
        return (
            f"{super().__repr__()}; {mirrors}; source {source.epoch}: {source.start} to {source.high} of {source.end}"
        )


def carry_out(node: Node, step: following.Step, batches: list[Batch]) -> None:
    """Do what a step says on a replica that is alone, and writes at once."""
    replica, log = node.replica, node.log
    assert replica is not None
    assert step.restart_at == following.NONE, "the log begins again"
    if step.truncate_to >= 0:
        log.truncate(step.truncate_to)
        replica.truncated(log.end_offset)
    for batch in batches[: step.append]:
        log.append(batch)
        replica.report_staged(batch.end_offset, 1)
    log.written = log.durable = len(log.batches)
    replica.wrote(log.end_offset, log.end_offset, NEVER_FLUSHED)
