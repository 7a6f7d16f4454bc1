"""The world of the quorum simulation: several voters on one virtual clock, a network that loses, repeats and delays
messages and whose links are cut one way, and disks whose unsynced content a power cut takes.

Everything is drawn from one seed. After each step of a voter, quorum_checks compares it with what is known of all.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from broker_cy.quorum import step
from broker_cy.quorum.election_state import ElectionState
from broker_cy.quorum.epochs import LogEpochs
from broker_cy.quorum.messages import Batch, FetchResponse
from broker_cy.quorum.quorum import Quorum
from broker_cy.quorum.step import (
    Append,
    Event,
    NotWritten,
    Output,
    Proposal,
    Received,
    Role,
    Send,
    Start,
    Stop,
    Synced,
    Tick,
    Timeouts,
)
from tests.sim.quorum_checks import Checks, end_of, shared_length

# Virtual time in which a world without faults must elect a leader and bring all logs in sync: several elections, of at
# most 2 s each, and the fetch timeout before them.
RECOVERY_MS = 30_000
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
    crash: float = 0.0  # of each step
    failed_write: float = 0.0
    failed_sync: float = 0.0
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
            draw.choice([10, 300, 3000]),
            draw.choice([100, 400, 2000]),
        )


class Disk:
    """`log` is what the process reads, `durable` what a power cut leaves; both are whole batches."""

    def __init__(self) -> None:
        self.state: ElectionState | None = None
        self.log: list[Batch] = []
        self.durable: list[Batch] = []
        self.is_dirty = False  # changed since the last sync began

    def truncate(self, end_offset: int) -> list[Batch]:
        """Truncate the log, and return what that removes."""
        length = len(self.log)
        while length and self.log[length - 1].offset >= end_offset:
            length -= 1
        removed = self.log[length:]
        del self.log[length:]
        self.is_dirty = True
        assert end_of(self.log) == end_offset, f"truncation to {end_offset} in the middle of a batch"
        return removed

    def cut_power(self, draw: random.Random) -> None:
        """Leave what was synced, or also some of what was written since, or the truncation without it."""
        if draw.random() < 0.5:
            self.log = list(self.durable)
        else:
            shared = shared_length(self.log, self.durable)
            del self.log[draw.randint(shared, len(self.log)) :]

    def epochs(self) -> LogEpochs:
        epochs = LogEpochs(0)
        for batch in self.log:
            epochs.append(batch.epoch, batch.offset, batch.end_offset)
        return epochs


class Node:
    """A voter; `quorum` is None while it is down. What is under way for an earlier life is dropped."""

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.disk = Disk()
        self.quorum: Quorum | None = None
        self.life = 0
        self.is_syncing = False
        self.wake_ms = -1
        self.paused_until_ms = 0

    @property
    def is_leader(self) -> bool:
        return self.quorum is not None and self.quorum.role is Role.LEADER


class World:
    """`run` lives through faults and then recovers. Raises AssertionError if an invariant is violated."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.voters = tuple(range(1, self.draw.choice([3, 3, 3, 4, 5]) + 1))
        self.faults = Faults.drawn(self.draw)
        self.nodes = {voter: Node(voter) for voter in self.voters}
        self.cuts: set[tuple[int, int]] = set()  # (from, to)
        self.now_ms = 0
        self.steps = 0
        self.crashes = 0
        self.proposed = 0
        self.timeouts = Timeouts(self.draw.choice([30, 200, 1000]), self.draw.choice([150, 600, 2000]), 200, 100)
        self.trace: deque[tuple[int, int, Event, Output]] = deque(maxlen=TRACE_MAX)
        disks = {voter: node.disk for voter, node in self.nodes.items()}
        self.checks = Checks(self.voters, disks, self.timeouts)
        self._due: list[tuple[int, int, Callable[[], None]]] = []
        self._number = 0

    def at(self, delay_ms: int, work: Callable[[], None]) -> None:
        self._number += 1
        heapq.heappush(self._due, (self.now_ms + delay_ms, self._number, work))

    # --- the course of the world

    def run(self, steps: int) -> None:
        for node in self.nodes.values():
            self.start(node)
        self.at(100, self.propose)
        self.at(500, self.meddle)
        self.go(lambda: self.steps >= steps, 1 << 60)
        self.recover()

    def go(self, is_done: Callable[[], bool], until_ms: int) -> bool:
        """Let the world go on; return whether it got to `is_done`."""
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

    def has_one_leader(self) -> bool:
        """All nodes have the same leader."""
        return len({node.quorum.leader_id for node in self.nodes.values() if node.quorum is not None} - {-1}) == 1

    def is_in_sync(self) -> bool:
        ends = {end_of(node.disk.durable) for node in self.nodes.values()}
        marks = {node.quorum.high_watermark for node in self.nodes.values() if node.quorum is not None}
        return ends == marks and len(ends) == 1

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
        """Cut and heal links, pause a node."""
        self.at(self.draw.randint(1, self.faults.meddling_ms), self.meddle)
        if self.faults == Faults():
            return
        one, other = self.draw.sample(self.voters, 2)
        kind = self.draw.choice(["cut", "cut both", "isolate", "heal", "heal", "pause", "none"])
        if kind.startswith("cut"):
            self.cuts |= {(one, other), (other, one)} if kind == "cut both" else {(one, other)}
        elif kind == "isolate":
            self.cuts |= {(one, to) for to in self.voters} | {(source, one) for source in self.voters}
        elif kind == "heal":
            self.cuts.clear()
        elif kind == "pause":
            self.nodes[one].paused_until_ms = self.now_ms + self.draw.randint(10, 1000)

    def start(self, node: Node) -> None:
        node.life += 1
        node.is_syncing = False
        node.wake_ms = -1
        node.disk.durable = list(node.disk.log)  # a start syncs what it reads
        node.disk.is_dirty = False
        self.checks.begin_life(node.node_id)
        node.quorum = Quorum(
            node.node_id,
            self.voters,
            node.disk.state,
            node.disk.epochs(),
            random.Random(self.draw.getrandbits(32)).randint,
            self.timeouts,
        )
        self.take(node, Start())

    def crash(self, node: Node) -> None:
        """End the process, by a kill or by a power cut, and start it again after a while."""
        self.crashes += 1
        node.quorum = None
        node.life += 1
        if self.draw.random() < 0.7:
            node.disk.cut_power(self.draw)

        def restart() -> None:
            if node.quorum is None:
                self.start(node)

        self.at(self.draw.randint(1, self.faults.down_ms), restart)

    # --- one step of a voter

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
        self.wake(node, output.wake_ms)
        if node.disk.is_dirty and not node.is_syncing:
            self.begin_sync(node)

    def carry_out(self, node: Node, output: Output) -> None:
        """Raises Crash, at any point if it is drawn."""
        # Most often where something must not be forgotten.
        likely = self.faults.crash * (10 if output.persist is not None else 1)
        crashes_at = self.draw.randint(0, 3 + len(output.send)) if self.draw.random() < likely else -1
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
        """What must be done for one part of an output. Each returns whether to go on."""
        match part:
            case "persist":
                return [lambda: self.persist(node, output)]
            case "truncate_to":
                return [lambda: self.truncate(node, output.truncate_to)]
            case "append":
                return [lambda: self.append(node, output.append)]
        return [lambda each=each: self.send(node, each) for each in output.send]  # type: ignore[misc]

    def persist(self, node: Node, output: Output) -> bool:
        if output.persist is not None:
            if self.draw.random() < self.faults.failed_write:
                raise Crash
            node.disk.state = output.persist
        return True

    def truncate(self, node: Node, end_offset: int) -> bool:
        if end_offset >= 0:
            self.checks.truncated(node.node_id, node.disk.truncate(end_offset))
        return True

    def append(self, node: Node, batches: tuple[Batch, ...]) -> bool:
        if batches and self.draw.random() < self.faults.failed_write:
            self.take(node, NotWritten(end_of(node.disk.log)))
            return False
        for batch in batches:
            assert batch.offset == end_of(node.disk.log)
            node.disk.log.append(batch)
            node.disk.is_dirty = True
        return True

    def send(self, node: Node, message: Send) -> bool:
        content = message.message
        self.checks.sent(node.node_id, message)
        if isinstance(content, FetchResponse) and content.offset >= 0:
            found = [batch for batch in node.disk.log if batch.offset >= content.offset]
            content = replace(content, batches=tuple(found[: self.draw.randint(1, 4)]))
        event = Received(node.node_id, content)
        copies = 2 if self.draw.random() < self.faults.repeat else 1
        for _ in range(copies):
            if (node.node_id, message.to) not in self.cuts and self.draw.random() >= self.faults.loss:
                self.at(self.draw.randint(0, self.faults.delay_ms), lambda: self.deliver(message.to, event))
        return True

    def deliver(self, to: int, event: Received) -> None:
        node = self.nodes[to]
        if not self.postpone(node, lambda: self.deliver(to, event)):
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
        life = node.life

        def done() -> None:
            if node.life != life or self.postpone(node, done):
                return
            node.is_syncing = False
            if self.draw.random() < self.faults.failed_sync:
                self.take(node, Stop())
                return
            node.disk.durable = content
            length = shared_length(content, node.disk.log)
            self.take(node, Synced(end_of(content[:length])))

        self.at(self.draw.randint(0, self.faults.sync_ms), done)

    def postpone(self, node: Node, work: Callable[[], None]) -> bool:
        """Whether the node is paused: then the work is done when it goes on."""
        if node.paused_until_ms <= self.now_ms:
            return False
        self.at(node.paused_until_ms - self.now_ms, work)
        return True
