"""The world of the quorum simulation: voters and observers on one virtual clock. The network loses, repeats and delays
messages, and its links are cut one way. A power cut takes the unsynced content of a disk, and disks may be wiped. Nodes
write and fetch snapshots, and an operator changes the voters.

Everything is drawn from one seed. After each step of a node, quorum_checks compares it with the knowledge of all nodes.

The file is long because the output of a node is carried out in parts, between which the node may crash, lose power or
have a slow disk: the acts, the faults and the deliveries share one clock, one draw and the disks, and call each other.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable
from typing import NamedTuple
from uuid import UUID

from broker_cy.core.errors import ErrorCode
from broker_cy.quorum import step
from broker_cy.quorum.entries import Batch, OffsetAndEpoch
from broker_cy.quorum.quorum import Quorum
from broker_cy.quorum.step import (
    Answer,
    Append,
    ChunkWritten,
    Event,
    LeaderGone,
    NotWritten,
    Output,
    Proposal,
    Received,
    Role,
    Send,
    SnapshotChunk,
    SnapshotDone,
    Snapshotted,
    Start,
    Stop,
    Synced,
    Tick,
    Timeouts,
)
from broker_cy.quorum.voters import Endpoint, ReplicaKey, Voter, VoterSet
from broker_cy.wire import messages as wire
from tests.sim.quorum_checks import Checks
from tests.sim.quorum_disk import Disk, Snapshot, shared_length
from tests.sim.quorum_operator import Operator

# Virtual time in which a world without faults must elect a leader and bring all logs in sync: several elections, of at
# most 2 s each, and the fetch timeout before them.
RECOVERY_MS = 30_000
# Virtual time in which the voters of a world without faults elect a successor of a leader whose process has ended, if
# they learn that within NOTICE_MS: some rounds of Timeouts.gone_ms, and less than FETCH_MS, the fetch timeout.
SUCCESSION_MS = 1_000
NOTICE_MS = 20
# After that, until the observers, which no leader reports itself to, have found it: less than FETCH_MS, too.
FOLLOWED_MS = 500
FETCH_MS = 2_000
# How long a wrong suspicion may take effect.
DOUBT_MS = 300
LISTENER = "CONTROLLER"
# The last steps, which a failure prints.
TRACE_MAX = 60


class Crash(Exception):
    """The process ends here."""


class Faults(NamedTuple):
    """How often things go wrong: a profile for one seed, or none at all."""

    loss: float = 0.0
    repeat: float = 0.0
    delay_ms: int = 5
    sync_ms: int = 5
    crash: float = 0.0  # per step
    failed_write: float = 0.0
    failed_sync: float = 0.0
    wipe: float = 0.0  # per crash
    down_ms: int = 1
    meddling_ms: int = 2000

    @classmethod
    def drawn(cls, draw: random.Random) -> Faults:
        return cls(
            draw.choice([0.0, 0.02, 0.3]),
            draw.choice([0.0, 0.1]),
            draw.choice([5, 50, 300, 1500]),
            draw.choice([1, 20, 400]),
            draw.choice([0.0, 0.01, 0.05]),
            draw.choice([0.0, 0.01]),
            draw.choice([0.0, 0.002]),
            draw.choice([0.0, 0.1, 0.3]),
            draw.choice([10, 300, 3000]),
            draw.choice([100, 400, 2000]),
        )


class Node:
    """`quorum` is None while the node is down. Work in progress for an earlier life is dropped."""

    def __init__(self, node_id: int, disk: Disk) -> None:
        self.node_id = node_id
        self.disk = disk
        self.quorum: Quorum | None = None
        self.port = 9093
        self.life = 0
        self.is_syncing = False
        self.is_snapshotting = False
        self.wake_ms = -1
        self.paused_until_ms = 0

    @property
    def key(self) -> ReplicaKey:
        return ReplicaKey(self.node_id, self.disk.directory_id)

    @property
    def me(self) -> Voter:
        return Voter(self.key, (Endpoint(LISTENER, f"host-{self.node_id}", self.port),))

    @property
    def is_leader(self) -> bool:
        return self.quorum is not None and self.quorum.role is Role.LEADER


class World:
    """`run` lives through faults and then recovers. Raises AssertionError if an invariant is violated."""

    def __init__(self, seed: int) -> None:
        draw = self.draw = random.Random(seed)
        voters = draw.choice([3, 3, 3, 4, 5])
        self.ids = tuple(range(1, voters + draw.choice([0, 0, 1, 2]) + 1))
        self.is_static = draw.random() < 0.3
        # Drawn from its own source, so that the worlds without auto join stay the same.
        self.auto_join = random.Random(f"auto join {seed}").random() < 0.3
        self.disks = 0
        self.timeouts = Timeouts(draw.choice([30, 200, 1000]), draw.choice([150, 600, 2000]), 200, 100)
        self.faults = Faults.drawn(draw)
        self.snapshot_ms = draw.choice([300, 1000, 5000])
        # The snapshot of a disk that was formatted without voters: a replacement, or one that is added later.
        self.blank = Snapshot(1, VoterSet(), 0)
        self.nodes = {node_id: Node(node_id, Disk(self.directory_id(), self.blank)) for node_id in self.ids}
        first = [self.nodes[node_id].me for node_id in self.ids[:voters]]
        formatted = Snapshot(1, VoterSet(first), 0)
        if self.is_static:
            static = VoterSet(voter._replace(key=ReplicaKey(voter.key.id)) for voter in first)
            formatted = self.blank = Snapshot(0, static, 0)
        for node in self.nodes.values():
            node.disk.formatted = formatted if node.node_id <= voters else self.blank
        self.operator = Operator(self)
        self.cuts: set[tuple[int, int]] = set()  # (from, to)
        self.snapshots: dict[OffsetAndEpoch, Snapshot] = {}
        self.asked: dict[tuple[int, int, int], int] = {}  # (asked, asking, correlation) -> the id that it was asked by
        self.now_ms = 0
        self.steps = 0
        self.crashes = 0
        self.wipes = 0
        self.fetched_snapshots = 0
        self.proposed = 0
        self.joined = 0
        self.trace: deque[tuple[int, int, Event, Output]] = deque(maxlen=TRACE_MAX)
        self.checks = Checks(self.nodes, self.timeouts)
        # Separate draws, so that seeds without them stay the same.
        self.doubts = random.Random(seed + 1_000_003)
        self.watches = self.doubts.random() < 0.5
        self.succeeded = 0
        self._due: list[tuple[int, int, Callable[[], None]]] = []
        self._number = 0

    def directory_id(self) -> UUID:
        self.disks += 1
        return UUID(int=self.disks << 64)

    def at(self, delay_ms: int, work: Callable[[], None]) -> None:
        self._number += 1
        heapq.heappush(self._due, (self.now_ms + delay_ms, self._number, work))

    # --- the course of the world

    def run(self, steps: int) -> None:
        for node in self.nodes.values():
            self.start(node)
        self.at(100, self.propose)
        self.at(500, self.meddle)
        self.at(300, self.operate)
        self.go(lambda: self.steps >= steps, 1 << 60)
        self.recover()
        self.doubt()
        self.succeed()

    def go(self, is_done: Callable[[], bool], until_ms: int) -> bool:
        """Let the world continue until `is_done` or `until_ms`; return whether `is_done`."""
        while not is_done():
            if self._due[0][0] > until_ms:
                return False
            self.now_ms, _, work = heapq.heappop(self._due)
            work()
        return True

    def recover(self) -> None:
        """End all faults. Then there must be a leader, and all logs must be in sync, in bounded time."""
        self.faults = Faults()
        self.cuts.clear()
        for node in self.nodes.values():
            node.paused_until_ms = 0
            if node.quorum is None:
                self.start(node)
        deadline_ms = self.now_ms + RECOVERY_MS
        assert self.go(self.has_one_leader, deadline_ms), f"no leader after the faults: {self!r}"
        proposed = self.proposed
        assert self.go(lambda: self.proposed > proposed + 2 and self.is_in_sync(), deadline_ms), (
            f"no progress: {self!r}"
        )

    def doubt(self) -> None:
        """Each follower suspects the leader, one after the other: the leader stays the leader."""
        leader = next(node for node in self.nodes.values() if node.is_leader)
        assert leader.quorum is not None
        epoch = leader.quorum.epoch
        self.go(lambda: False, self.now_ms + DOUBT_MS)
        for node in self.nodes.values():
            if node is leader or node.quorum is None:
                continue
            before = node.quorum.role
            self.take(node, LeaderGone(leader.node_id, epoch - 1))
            assert node.quorum.role is before, f"{node.node_id} gives up {leader.node_id} for an earlier epoch"
            self.take(node, LeaderGone(leader.node_id, epoch))
            self.go(lambda: False, self.now_ms + DOUBT_MS)
            assert leader.is_leader, f"{leader.node_id} was deposed by a suspicion of {node.node_id}"
            assert leader.quorum.epoch == epoch, f"{leader.node_id} was deposed by a suspicion of {node.node_id}"

    def succeed(self) -> None:
        """End the process of the leader forever: the others, who notice it, soon elect another one."""
        leader = next(node for node in self.nodes.values() if node.is_leader)
        assert leader.quorum is not None
        voters = leader.quorum.voters
        # A node that has lost its disk is no longer the same voter.
        left = [node for node in self.nodes.values() if node is not leader and node.key in voters]
        if self.timeouts.fetch_ms < FETCH_MS or len(left) < voters.majority:
            return
        leader.quorum = None
        leader.life += 1
        self.watch(leader, NOTICE_MS)
        elected = self.go(
            lambda: any(node.is_leader for node in self.nodes.values()), self.now_ms + NOTICE_MS + SUCCESSION_MS
        )
        assert elected, f"{leader.node_id} has no successor after {SUCCESSION_MS} ms: {self!r}"
        # A voter that the leader's first request did not reach, and an observer, which gets none, search for it.
        followed = self.go(self.follows_one, self.now_ms + FOLLOWED_MS)
        assert followed, f"after {FOLLOWED_MS} ms not all follow the successor of {leader.node_id}: {self!r}"
        self.succeeded += 1

    def watch(self, leader: Node, within_ms: int) -> None:
        """The other nodes learn that the process of the leader has ended forever: each of them once, in an epoch that
        it knows or learns of later.
        """
        reported: set[tuple[int, int]] = set()

        def look(node: Node) -> None:
            self.at(self.doubts.randint(1, within_ms), lambda: look(node))
            if node.quorum is None or node.quorum.leader_id != leader.node_id or leader.quorum is not None:
                return
            known = (node.node_id, node.quorum.epoch)
            if known not in reported:
                reported.add(known)
                self.take(node, LeaderGone(leader.node_id, node.quorum.epoch))

        for node in self.nodes.values():
            if node is not leader:
                self.at(self.doubts.randint(0, within_ms), lambda node=node: look(node))  # type: ignore[misc]

    def notice(self, leader: Node, epoch: int, within_ms: int) -> None:
        """The other nodes learn that the process of the leader has ended."""
        for node in self.nodes.values():
            if node is not leader:
                gone = LeaderGone(leader.node_id, epoch)
                self.at(self.doubts.randint(0, within_ms), lambda node=node, gone=gone: self.take(node, gone))  # type: ignore[misc]

    def follows_one(self) -> bool:
        """Whether all running nodes have the same leader, and it runs, too."""
        found = {node.quorum.leader_id for node in self.nodes.values() if node.quorum is not None}
        return len(found) == 1 and any(node.node_id in found for node in self.nodes.values() if node.is_leader)

    def has_one_leader(self) -> bool:
        """All nodes have the same leader."""
        return len({node.quorum.leader_id for node in self.nodes.values() if node.quorum is not None} - {-1}) == 1

    def is_in_sync(self) -> bool:
        """All nodes have the same entries, and the voters are recorded as they are."""
        ends = {node.disk.end for node in self.nodes.values() if not node.is_syncing}
        marks = {node.quorum.high_watermark for node in self.nodes.values() if node.quorum is not None}
        if ends != marks or len(ends) != 1:
            return False
        voters = next(iter(self.nodes.values())).quorum.voters  # type: ignore[union-attr]
        if self.auto_join and next(iter(self.nodes.values())).quorum.kraft_version:  # type: ignore[union-attr]
            return all(node.me in voters.voters for node in self.nodes.values())
        return self.is_static or all(node.me in voters.voters or node.key not in voters for node in self.nodes.values())

    def story(self) -> str:
        """The last steps."""
        return "\n".join(f"{at} ms, node {node}: {event}\n    -> {output}" for at, node, event, output in self.trace)

    def __repr__(self) -> str:
        return "; ".join(
            f"{node.quorum!r}" if node.quorum else f"{node.node_id} is down" for node in self.nodes.values()
        )

    # --- what happens by itself

    def propose(self) -> None:
        """A client asks each node that believes to lead for a change."""
        self.at(self.draw.randint(1, 200), self.propose)
        for node in self.nodes.values():
            if node.is_leader and self.draw.random() < 0.8:
                assert node.quorum is not None
                self.proposed += 1
                counts = [self.draw.randint(1, 3) for _ in range(self.draw.randint(1, 3))]
                content = f"change {self.proposed}".encode()
                proposals = tuple(Proposal(count, content) for count in counts)
                self.take(node, Append(node.quorum.epoch, node.quorum.end_offset, proposals))

    def meddle(self) -> None:
        """Cut and heal links, pause a node, let a node take the leader for gone."""
        self.at(self.draw.randint(1, self.faults.meddling_ms), self.meddle)
        if self.faults == Faults():
            return
        if self.watches and self.doubts.random() < 0.3:
            node = self.nodes[self.doubts.choice(self.ids)]
            if node.quorum is not None and node.paused_until_ms <= self.now_ms:
                gone = LeaderGone(node.quorum.leader_id, node.quorum.epoch - self.doubts.choice([0, 0, 0, 1]))
                self.take(node, gone)
        one, other = self.draw.sample(self.ids, 2)
        kind = self.draw.choice(["cut", "cut both", "isolate", "heal", "heal", "pause", "none"])
        if kind.startswith("cut"):
            self.cuts |= {(one, other), (other, one)} if kind == "cut both" else {(one, other)}
        elif kind == "isolate":
            self.cuts |= {(one, to) for to in self.ids} | {(source, one) for source in self.ids}
        elif kind == "heal":
            self.cuts.clear()
        elif kind == "pause":
            self.nodes[one].paused_until_ms = self.now_ms + self.draw.randint(10, 1000)

    def operate(self) -> None:
        self.at(self.draw.randint(20, 600), self.operate)
        if self.faults != Faults():
            self.operator.act()
        for node in self.nodes.values():
            if self.draw.random() * self.snapshot_ms < 200:
                self.take_snapshot(node)

    def take_snapshot(self, node: Node) -> None:
        """Write a snapshot of the committed entries, and later delete the log that it covers."""
        quorum, disk = node.quorum, node.disk
        if quorum is None or node.is_snapshotting:
            return
        found = [batch for batch in disk.log if batch.end_offset <= quorum.high_watermark]
        if not found:
            return
        last = found[self.draw.randint(len(found) // 2, len(found) - 1)]
        snapshot_id = OffsetAndEpoch(last.end_offset, last.epoch)
        at = quorum.voters_at(snapshot_id.offset)
        snapshot = self.known(snapshot_id, at.kraft_version, at.voters)
        keeps_log = self.draw.random() < 0.3
        life = node.life
        node.is_snapshotting = True

        def done() -> None:
            if node.life != life or self.postpone(node, done):
                return
            node.is_snapshotting = False
            if snapshot_id.offset <= disk.start.offset or snapshot_id in disk.snapshots:
                return
            disk.snapshots[snapshot_id] = snapshot
            if not keeps_log:
                disk.begin_at(snapshot_id)
            self.take(node, Snapshotted(snapshot_id, disk.start))

        self.at(self.draw.randint(0, 10 * self.faults.sync_ms), done)

    def known(self, snapshot_id: OffsetAndEpoch, kraft_version: int, voters: VoterSet) -> Snapshot:
        """Return the snapshot of this id, which must have the same content on all nodes."""
        made = Snapshot(kraft_version, voters, 1 + snapshot_id.offset % 4)
        snapshot = self.snapshots.setdefault(snapshot_id, made)
        assert snapshot == made, f"snapshot {snapshot_id} is {snapshot} on one node, and {made} on another"
        return snapshot

    def start(self, node: Node) -> None:
        node.life += 1
        node.is_syncing = node.is_snapshotting = False
        node.wake_ms = -1
        if self.faults.wipe and self.draw.random() < 0.1:
            node.port += 1
        log, history = node.disk.load()
        self.checks.begin_life(node.node_id, history)
        node.quorum = Quorum(
            node.me,
            history,
            node.disk.state,
            log,
            random.Random(self.draw.getrandbits(32)).randint,
            self.timeouts,
            snapshot_id=node.disk.newest,
            bootstrap_servers=len(self.ids),
            auto_join=self.auto_join,
        )
        self.take(node, Start())

    def crash(self, node: Node) -> None:
        """End the process, by a kill, by a power cut or with its disk, and start it again after a while."""
        self.crashes += 1
        if self.watches and node.quorum is not None and node.is_leader:
            self.notice(node, node.quorum.epoch, self.doubts.choice([NOTICE_MS, 10 * NOTICE_MS]))
        node.quorum = None
        node.life += 1
        node.disk.end_process(self.draw)
        if self.draw.random() < self.faults.wipe and self.operator.may_lose(node):
            self.wipes += 1
            node.disk = Disk(self.directory_id(), self.blank)
        elif self.draw.random() < 0.7:
            node.disk.cut_power(self.draw)

        def restart() -> None:
            if node.quorum is None:
                self.start(node)

        self.at(self.draw.randint(1, self.faults.down_ms), restart)

    # --- one step of a node

    def take(self, node: Node, event: Event) -> None:
        """Take the event and carry out the output, or a part of it."""
        if node.quorum is None:
            return
        self.steps += 1
        life = node.life
        output = node.quorum.step(event, self.now_ms)
        self.trace.append((self.now_ms, node.node_id, event, output))
        try:
            self.carry_out(node, output)
        except Crash:
            self.crash(node)
            return
        if node.life != life:
            return  # it crashed when it took NotWritten
        if node.quorum.role is Role.CLOSED:
            self.crash(node)
            return
        self.checks.after(node.node_id, node.quorum, event, self.now_ms)
        for reply in output.replies:
            self.operator.answered(node, reply)
        self.wake(node, output.wake_ms)
        if node.disk.is_dirty and not node.is_syncing:
            self.begin_sync(node)

    def carry_out(self, node: Node, output: Output) -> None:
        """Raises Crash, at any point if it is drawn."""
        # Most often where something must not be forgotten.
        likely = self.faults.crash * (10 if output.persist is not None or output.replace_log is not None else 1)
        crashes_at = self.draw.randint(0, 5 + len(output.send)) if self.draw.random() < likely else -1
        done = 0
        for part in step.DURABILITY_ORDER:
            for act in self.acts(node, output, part):
                if done == crashes_at:
                    raise Crash
                done += 1
                if not act():
                    return
        if crashes_at >= done:
            raise Crash

    def acts(self, node: Node, output: Output, part: str) -> list[Callable[[], bool]]:
        """Return the actions for one part of an output. Each returns whether to continue."""
        match part:
            case "persist":
                return [lambda: self.persist(node, output)] if output.persist is not None else []
            case "truncate_to":
                return [lambda: self.truncate(node, output.truncate_to)] if output.truncate_to >= 0 else []
            case "replace_log":
                return [lambda: self.replace_log(node, output.replace_log)] if output.replace_log is not None else []
            case "append":
                return [lambda: self.append(node, output)] if output.append else []
            case "chunk":
                return [lambda: self.write_chunk(node, output.chunk)] if output.chunk is not None else []
        return [lambda each=each: self.send(node, each) for each in output.send]  # type: ignore[misc]

    def persist(self, node: Node, output: Output) -> bool:
        if self.draw.random() < self.faults.failed_write:
            raise Crash
        assert output.persist is not None
        node.disk.persist(output.persist, binds=output.binds)
        return True

    def truncate(self, node: Node, end_offset: int) -> bool:
        self.checks.truncated(node.node_id, end_offset, node.disk.truncate(end_offset))
        return True

    def replace_log(self, node: Node, start: OffsetAndEpoch | None) -> bool:
        assert start is not None
        removed = node.disk.replace(start)
        self.checks.truncated(node.node_id, start.offset, removed)
        self.checks.replaced(node.node_id)
        return True

    def append(self, node: Node, output: Output) -> bool:
        if self.draw.random() < self.faults.failed_write:
            self.take(node, NotWritten(node.disk.end))
            return False
        for batch in output.append:
            assert batch.offset == node.disk.end
            node.disk.log.append(batch)
            node.disk.is_dirty = True
            self.checks.appended(node.node_id, batch, output)
        return True

    def write_chunk(self, node: Node, chunk: SnapshotChunk | None) -> bool:
        """Write a part of a snapshot. It is on disk, and has its name, when it is complete."""
        assert chunk is not None
        snapshot_id, position, content, is_last = chunk
        life, disk = node.life, node.disk

        def done() -> None:
            if node.life != life or self.postpone(node, done):
                return
            if self.draw.random() < self.faults.failed_write:
                disk.part = None
                self.take(node, ChunkWritten(snapshot_id, -1))
                return
            if position:
                assert disk.part == (snapshot_id, position), f"{chunk} does not continue {disk.part}"
            disk.part = (snapshot_id, position + len(content))
            if not is_last:
                self.take(node, ChunkWritten(*disk.part))
                return
            disk.part = None
            snapshot = self.snapshots[snapshot_id]
            assert position + len(content) == snapshot.size, (
                f"{node.node_id} takes a part of {snapshot_id} for the whole"
            )
            self.fetched_snapshots += 1
            disk.snapshots[snapshot_id] = snapshot
            self.take(node, SnapshotDone(snapshot_id, snapshot.kraft_version, snapshot.voters))

        self.at(self.draw.randint(0, self.faults.sync_ms), done)
        return True

    def send(self, node: Node, message: Send | Answer) -> bool:
        content = message.message
        self.checks.sent(node.node_id, message)
        source, to = node.node_id, message.to
        batches: tuple[Batch, ...] = ()
        if isinstance(content, wire.FetchResponse):
            assert isinstance(message, Answer)
            source = self.asked.pop((source, to, message.correlation), source)
            if message.records_from >= 0:
                batches = self.batches_from(node.disk, message.records_from)
        elif isinstance(content, wire.FetchSnapshotResponse):
            self.add_chunk(node.disk, content)
        elif to < 0:
            to = self.ids[step.BOOTSTRAP - to]
            self.asked[to, source, message.correlation] = message.to
        event = Received(source, content, message.correlation, LISTENER, batches)
        copies = 2 if self.draw.random() < self.faults.repeat else 1
        for _ in range(copies):
            if (node.node_id, to) not in self.cuts and self.draw.random() >= self.faults.loss:
                self.at(self.draw.randint(0, self.faults.delay_ms), lambda: self.deliver(to, event))
        return True

    def batches_from(self, disk: Disk, offset: int) -> tuple[Batch, ...]:
        """Whole batches, from the one that contains `offset` on."""
        at = len(disk.log)
        while at and disk.log[at - 1].end_offset > offset:
            at -= 1
        return tuple(disk.log[at : at + self.draw.randint(1, 4)])

    def add_chunk(self, disk: Disk, response: wire.FetchSnapshotResponse) -> None:
        """Add the bytes of a snapshot to a response without an error."""
        part = response.topics[0].partitions[0]
        if part.error_code:
            return
        snapshot = disk.snapshots.get(OffsetAndEpoch(part.snapshot_id.end_offset, part.snapshot_id.epoch))
        if snapshot is None:
            part.error_code = ErrorCode.SNAPSHOT_NOT_FOUND
        elif part.position >= snapshot.size:
            part.error_code = ErrorCode.POSITION_OUT_OF_RANGE
        else:
            length = self.draw.randint(1, snapshot.size - part.position)
            part.size, part.unaligned_records = snapshot.size, bytes(length)

    def deliver(self, to: int, event: Received) -> None:
        node = self.nodes[to]
        if self.postpone(node, lambda: self.deliver(to, event)):
            return
        if isinstance(event.message, (wire.AddRaftVoterRequest, wire.RemoveRaftVoterRequest)):
            # The handler of such a request does the same; the sender needs nothing from the response.
            self.operator.asked_by_a_node(node, event.message)
        else:
            self.take(node, event)

    def wake(self, node: Node, wake_ms: int) -> None:
        if wake_ms < 0 or (self.now_ms < node.wake_ms <= wake_ms):
            return
        node.wake_ms = wake_ms
        life = node.life

        def fire() -> None:
            if node.life == life and not self.postpone(node, fire):
                if node.wake_ms <= self.now_ms:
                    node.wake_ms = -1
                self.take(node, Tick())

        self.at(max(wake_ms - self.now_ms, 0), fire)

    def begin_sync(self, node: Node) -> None:
        node.is_syncing = True
        node.disk.is_dirty = False
        content = list(node.disk.log)
        life, disk = node.life, node.disk

        def done() -> None:
            if node.life != life or self.postpone(node, done):
                return
            node.is_syncing = False
            if self.draw.random() < self.faults.failed_sync:
                self.take(node, Stop())
                return
            kept = [batch for batch in content if batch.offset >= disk.start.offset]
            disk.durable = kept
            length = shared_length(kept, disk.log)
            self.take(node, Synced(kept[length - 1].end_offset if length else disk.start.offset))

        self.at(self.draw.randint(0, self.faults.sync_ms), done)

    def postpone(self, node: Node, work: Callable[[], None]) -> bool:
        """Whether the node is paused. If so, the work is done when it continues."""
        if node.paused_until_ms <= self.now_ms:
            return False
        self.at(node.paused_until_ms - self.now_ms, work)
        return True
