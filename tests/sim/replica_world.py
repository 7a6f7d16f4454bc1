"""The world of the replication simulation: one partition on several brokers, a controller, producers, and a network
that delays, repeats and loses messages. Brokers are killed, lose power, stop cleanly, and are slow.

The replicas decide with the real state machines (broker_cy.replica); logs are lists. Everything is drawn from one
seed. In half of the worlds flush.messages is 1. A power cut takes unsynced records. It hits no broker with the only
copy of a record, because then even a correct cluster loses it. In some worlds throttles (KIP-73) hold replicas that are
not in sync until the faults end. In others links are cut, and leaders stand still (replica_silence).

The file is long because every request may be lost, late or answered by an earlier life of a broker: requests, answers
and the pending work of each life are one state, from which the next act or fault is drawn.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from broker_cy.core.errors import ErrorCode
from broker_cy.metadata.image import PartitionImage
from broker_cy.replica import following, leading
from broker_cy.replica.broker_status import BrokerStatus
from broker_cy.replica.in_sync import Altered, InSync, Proposal
from broker_cy.replica.replica import Replica
from broker_cy.replica.silence import FollowerSilence
from broker_cy.replica.throttle import EVERY, UNLIMITED, ReplicaThrottle
from tests.sim.replica_checks import Checks
from tests.sim.replica_controller import Controller
from tests.sim.replica_node import Batch, Node
from tests.sim.replica_silence import TICK_MS, Silences

# Virtual time in which a world without faults must be in sync: several rounds of fetches, timeouts and in-sync sets.
RECOVERY_MS = 60_000
LAG_MAX_MS = 2_000
WAIT_MS = 500
FETCH_TIMEOUT_MS = 1_000
NEVER_FLUSHED = 1 << 60
TRACE_MAX = 80
THROTTLE_WINDOWS, THROTTLE_WINDOW_MS = 3, 300
ANSWER_MAX = 4  # batches
TOPIC = "t"


class Faults(NamedTuple):
    loss: float = 0.0
    repeat: float = 0.0
    delay_ms: int = 5
    metadata_ms: int = 5
    write_ms: int = 1
    sync_ms: int = 2
    late: float = 0.0  # of messages: they arrive seconds later
    lost_answers: float = 0.0  # of the controller
    trouble_ms: int = 0  # between two ends of processes; 0 for none

    @classmethod
    def drawn(cls, draw: random.Random) -> Faults:
        return cls(
            draw.choice([0.0, 0.01, 0.1]),
            draw.choice([0.0, 0.1]),
            draw.choice([5, 30, 200]),
            draw.choice([5, 100, 1500]),
            draw.choice([1, 10, 200]),
            draw.choice([2, 30, 500]),
            draw.choice([0.0, 0.05, 0.4]),
            draw.choice([0.0, 0.2]),
            draw.choice([300, 1000, 4000]),
        )


class World:
    """`run` lives through faults and then recovers. Raises AssertionError if an invariant is violated."""

    has_mirrored = False  # see leading.judge

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        ids = tuple(range(1, self.draw.choice([3, 3, 4]) + 1))
        self.min_isr = self.draw.choice([1, 2, 2])
        self.flush_messages = self.draw.choice([1, NEVER_FLUSHED])
        self.faults = Faults.drawn(self.draw)
        self.nodes = {each: Node(each) for each in ids}
        self.controller = Controller(ids, self.min_isr)
        # Batches a second. Drawn apart, so that worlds without throttles are the same as before there were any.
        self.throttle = random.Random(seed).choice([UNLIMITED, UNLIMITED, UNLIMITED, 0, 5, 20])
        self.checks = Checks(self.min_isr, LAG_MAX_MS, self.throttle, (THROTTLE_WINDOWS, THROTTLE_WINDOW_MS))
        self.silences = Silences(seed, LAG_MAX_MS)
        # In some worlds producers also write with acks=1, which min.insync.replicas does not hold.
        self.hasty = random.Random(f"acks=1 {seed}")
        self.is_hasty = self.hasty.random() < 0.1
        self.deletes = random.Random(f"deletes {seed}")
        self.deletions = 0  # that were answered without an error
        if self.silences.limit_ms:
            # Else there is seldom one to wait for: processes that end are fenced.
            self.faults = self.faults._replace(trouble_ms=8 * self.faults.trouble_ms)
        self.now_ms = 0
        self.is_over = False  # nothing is produced any more
        self.steps = self.ends = self.records = self.truncations = 0
        self.trace: deque[str] = deque(maxlen=TRACE_MAX)
        self._due: list[tuple[int, int, Callable[[], None]]] = []
        self._number = 0

    def at(self, delay_ms: int, work: Callable[[], None]) -> None:
        self._number += 1
        heapq.heappush(self._due, (self.now_ms + delay_ms, self._number, work))

    def note(self, text: str) -> None:
        self.trace.append(f"{self.now_ms} ms: {text}")

    def story(self) -> str:
        return "\n".join(self.trace)

    # --- the course of the world

    def run(self, steps: int) -> None:
        for node in self.nodes.values():
            self.start(node)
        self.at(20, self.produce)
        self.at(700, self.delete_records)
        if self.faults.trouble_ms:
            self.at(self.faults.trouble_ms, self.trouble)
        if self.silences.limit_ms:
            self.at(1, self.disturb)
        self.go(lambda: self.steps >= steps, 1 << 60)
        self.recover()

    def go(self, is_done: Callable[[], bool], until_ms: int) -> bool:
        while not is_done():
            if self._due[0][0] > until_ms:
                return False
            self.now_ms, _, work = heapq.heappop(self._due)
            self.steps += 1
            work()
        return True

    def recover(self) -> None:
        """End all faults. Then all replicas must be in sync, and equal, in bounded time."""
        self.faults = Faults()
        self.silences.end()
        for node in self.nodes.values():
            for throttle in node.throttles:
                throttle.limit_to(UNLIMITED)
        self.throttle = self.checks.throttle = UNLIMITED
        deadline_ms = self.now_ms + RECOVERY_MS
        records = len(self.checks.acked)
        assert self.go(lambda: len(self.checks.acked) > records, deadline_ms), f"no record is acknowledged: {self!r}"
        self.is_over = True
        assert self.go(self.is_in_sync, deadline_ms), f"not in sync after the faults: {self!r}"
        self.delete_everywhere(deadline_ms)
        for node in self.nodes.values():
            self.checks.holds(node, node.log.batches)
        first, *others = sorted(self.nodes.values(), key=lambda node: -node.log.log_start_offset)
        for other in others:
            for batch in first.log.batches:
                if batch.end_offset <= first.log.log_start_offset:
                    continue
                assert batch in other.log.batches, f"{other.node_id} lacks {batch}, which {first.node_id} has"

    def delete_everywhere(self, deadline_ms: int) -> None:
        """A DeleteRecords without faults is answered, although nothing is produced."""
        leader = self.nodes[self.controller.image.leader]
        assert leader.replica is not None
        deletions = self.deletions
        self.delete_before(leader, leader.replica.high["offset"], RECOVERY_MS)
        self.after(leader)
        assert self.go(lambda: self.deletions > deletions, deadline_ms), f"DeleteRecords is not answered: {self!r}"

    def is_in_sync(self) -> bool:
        image = self.controller.image
        if len(image.isr) < len(self.nodes) or any(node.replica is None for node in self.nodes.values()):
            return False
        marks = {node.replica.high["offset"] for node in self.nodes.values() if node.replica is not None}
        ends = {node.log.end_offset for node in self.nodes.values()}
        return marks == ends and len(ends) == 1

    def __repr__(self) -> str:
        parts = [f"{node.node_id}: {node.replica!r} from {node.log.log_start_offset}" for node in self.nodes.values()]
        return f"{self.controller.image}; " + "; ".join(parts)

    # --- what happens by itself

    def produce(self) -> None:
        """A producer sends a record with acks=all to each node that believes to lead."""
        if self.is_over:
            return
        self.at(self.draw.randint(1, 60), self.produce)
        for node in self.nodes.values():
            replica = node.replica
            if replica is None or not node.is_leader or self.refuses(node):
                continue
            if self.is_hasty and replica.under_min and self.hasty.random() < 0.5:
                self.append(node, replica, self.hasty)
            if not replica.under_min and self.draw.random() >= 0.3:
                node.waiting.append((replica.leader_epoch, self.append(node, replica, self.draw)))

    def refuses(self, node: Node) -> bool:
        """Whether a leader refuses producers."""
        return node.stopping

    def append(self, node: Node, replica: Replica, draw: random.Random) -> Batch:
        self.records += 1
        base = node.log.end_offset
        batch = Batch(base, base + draw.randint(1, 3), replica.leader_epoch, self.records)
        node.log.append(batch)
        replica.report_staged(batch.end_offset, 1)
        self.flush_soon(node)
        return batch

    def delete_records(self) -> None:
        """DeleteRecords at the leader."""
        self.at(self.draw.randint(100, 3000), self.delete_records)
        for node in self.nodes.values():
            if node.replica is not None and node.is_leader and self.faults != Faults():
                before = self.draw.randint(0, node.replica.high["offset"])
                if before > node.log.log_start_offset:
                    self.delete_before(node, before, self.deletes.choice([0, 200, 5_000]))

    def delete_before(self, leader: Node, offset: int, timeout_ms: int) -> None:
        leader.log.delete_before(offset)
        leader.deleting.append((offset, self.now_ms + timeout_ms))
        self.note(f"{leader.node_id} deletes before {offset}")

    def disturb(self) -> None:
        if self.faults.trouble_ms:
            self.at(self.silences.disturb(list(self.nodes), self.now_ms), self.disturb)

    def trouble(self) -> None:
        """End a process, in one of several ways."""
        if not self.faults.trouble_ms:
            return
        self.at(self.draw.randint(1, 2 * self.faults.trouble_ms), self.trouble)
        node = self.nodes[self.draw.choice(list(self.nodes))]
        if node.replica is None or node.stopping:
            return
        self.ends += 1
        kind = self.draw.choice(["kill", "power", "stop"])
        image = self.controller.image
        if kind == "power" and not set(image.isr + image.elr) - {node.node_id}:
            kind = "kill"
        self.note(f"{kind} {node.node_id}")
        if kind == "stop":
            self.controller.stop(node.node_id)
            self.spread()
            node.stopping = True
            life = node.life
            self.at(self.draw.randint(100, 1500), lambda: self.end(node, life))
            return
        durable = node.log.durable
        node.stop()
        if kind == "power":
            keep = self.draw.randint(durable, node.log.written)
            node.log.cut(keep)
            self.controller.fence(node.node_id, lost_records=True)
            self.spread()
        else:
            self.at(self.draw.randint(1, 800), lambda: self.fence(node, node.life))
        self.at(self.draw.randint(1, self.draw.choice([50, 3000])), lambda: self.start(node))

    def end(self, node: Node, life: int) -> None:
        if node.replica is not None and node.life == life:
            node.stop()
            self.at(self.draw.randint(1, 3000), lambda: self.start(node))

    def fence(self, node: Node, life: int) -> None:
        if node.life == life and node.replica is None:
            self.controller.fence(node.node_id)
            self.spread()

    def start(self, node: Node) -> None:
        if node.replica is not None:
            return
        node.start(self.controller.register(node.node_id))
        node.throttles = self.new_throttle(), self.new_throttle()
        node.silence = FollowerSilence(self.silences.limit_ms, LAG_MAX_MS, node.broker_statuses)
        self.silences.restarted(node.node_id)
        self.note(f"start {node.node_id}: {node.replica!r}")
        self.spread()
        self.at(self.draw.randint(1, 200), lambda: self.unfence(node, node.life))
        self.tick(node, node.life)

    def new_throttle(self) -> ReplicaThrottle:
        made = ReplicaThrottle(THROTTLE_WINDOWS, THROTTLE_WINDOW_MS)
        made.limit_to(self.throttle)
        made.list_replicas(TOPIC, [EVERY], 0)
        return made

    def unfence(self, node: Node, life: int) -> None:
        if node.life == life:
            self.controller.unfence(node.node_id)
            self.spread()

    def tick(self, node: Node, life: int) -> None:
        if node.life != life or node.replica is None:
            return
        stands_ms = self.silences.stands_ms(node.node_id, self.now_ms)
        if stands_ms:
            self.at(stands_ms, lambda: self.tick(node, life))
            return
        self.at(self.draw.randint(50, TICK_MS), lambda: self.tick(node, life))
        if self.deletes.random() < 0.2:
            node.checkpointed_start = node.log.log_start_offset
        node.checkpointed_high = max(
            node.log.log_start_offset, self.draw.choice([node.checkpointed_high, node.replica.high["offset"]])
        )
        before = node.replica.in_sync.proposal if node.replica.in_sync is not None else None
        node.silence.tick(self.now_ms)
        node.replica.tick(self.now_ms)
        self.silences.ticked(node, before, self.now_ms)
        self.after(node)

    # --- metadata

    def spread(self) -> None:
        """Each node gets the metadata, or later ones before."""
        controller = self.controller
        version, image, broker_statuses = controller.version, controller.image, controller.broker_statuses()
        for node in self.nodes.values():
            life = node.life
            delay_ms = self.draw.randint(0, self.faults.metadata_ms)
            self.at(delay_ms, lambda node=node, life=life: self.learn(node, life, version, image, broker_statuses))  # type: ignore[misc]

    def learn(
        self, node: Node, life: int, version: int, image: PartitionImage, broker_statuses: dict[int, BrokerStatus]
    ) -> None:
        replica = node.replica
        if replica is None or node.life != life or version <= node.version:
            return
        node.version = version
        node.broker_statuses.clear()
        node.broker_statuses.update(broker_statuses)
        node.leader = image.leader
        node.isr = image.isr
        if image.leader == node.node_id:
            if image.leader_epoch > replica.leader_epoch:
                self.flush(node)
                self.begin_epoch(node, image)
                self.checks.leads(node)
                self.note(f"{node.node_id} leads {image}")
            in_sync = replica.in_sync or InSync(
                node.node_id, node.broker_statuses, LAG_MAX_MS, self.min_isr, node.silence
            )
            replica.lead(in_sync, image, self.now_ms)
        elif image.leader_epoch > replica.leader_epoch:
            self.flush(node)
            replica.follow(image.leader_epoch)
            node.leader_start = 0
            self.settle(node)
            assert not node.waiting, "an append waits for the high watermark of another leader"
            node.asked_until_ms = -1
        node.is_informed = True
        self.after(node)

    def begin_epoch(self, node: Node, image: PartitionImage) -> None:
        """A node begins to lead in an epoch."""
        node.log.epochs.assign(image.leader_epoch, node.log.end_offset)

    def propose(self, node: Node, proposal: Proposal) -> None:
        if proposal is not node.proposed:  # else it is sent again
            self.checks.proposed(node, proposal, self.controller.image.replicas)
        node.proposed = proposal
        self.note(f"{node.node_id} proposes {proposal}")
        assert node.replica is not None
        broker_epoch, life, high = node.broker_epoch, node.life, node.replica.high["offset"]

        def arrive() -> None:
            answer = self.controller.alter(node.node_id, broker_epoch, proposal)
            if answer.error == ErrorCode.NONE:
                self.spread()
                if proposal.added >= 0:
                    self.checks.joined(self.nodes[proposal.added], high)
            lost = self.draw.random() < self.faults.lost_answers
            self.send(lambda: back(Altered(ErrorCode.REQUEST_TIMED_OUT) if lost else answer), may_be_late=True)

        def back(answer: Altered) -> None:
            if node.replica is not None and node.life == life:
                self.note(f"{node.node_id} is answered {answer}")
                node.replica.answered(proposal, answer)
                self.after(node)

        self.send(arrive, may_be_late=True)

    def send(
        self,
        arrive: Callable[[], None],
        *,
        link: tuple[int, int] | None = None,
        may_be_lost: bool = False,
        may_be_late: bool = False,
    ) -> None:
        if link is not None and self.silences.is_cut(link, self.now_ms):
            return
        if may_be_lost and self.draw.random() < self.faults.loss:
            return
        for _ in range(2 if may_be_lost and self.draw.random() < self.faults.repeat else 1):
            late_ms = 4000 if (may_be_lost or may_be_late) and self.draw.random() < self.faults.late else 0
            self.at(self.draw.randint(0, self.faults.delay_ms + late_ms), arrive)

    # --- writes and syncs

    def flush_soon(self, node: Node) -> None:
        if not node.is_flushing:
            node.is_flushing = True
            life = node.life
            self.at(self.draw.randint(0, self.faults.write_ms), lambda: self.flush(node, life))

    def flush(self, node: Node, life: int = -1) -> None:
        """Write staged records, unless that life of the node is over."""
        if node.replica is None or life not in (-1, node.life):
            return
        node.is_flushing = False
        log = node.log
        log.written = len(log.batches)
        found = node.replica.wrote(log.written_end_offset, log.synced_end_offset, self.flush_messages)
        node.delete_as_leader()
        if found["wants_round"]:
            self.sync(node)
        self.after(node)

    def sync(self, node: Node) -> None:
        if node.is_syncing:
            return
        assert node.replica is not None
        node.is_syncing = True
        node.replica.begin_round()
        life, count, log, kept = node.life, node.log.written, node.log, node.log.batches

        def done() -> None:
            if node.life != life or node.replica is None:
                return
            node.is_syncing = False
            if log.batches is kept:
                log.durable = max(log.durable, min(count, log.written))
            found = node.replica.synced(log.synced_end_offset)
            node.delete_as_leader()
            if found["wants_round"] or node.replica.next_from["offset"] >= 0:
                self.sync(node)
            self.after(node)

        self.at(self.draw.randint(0, self.faults.sync_ms), done)

    def after(self, node: Node) -> None:
        """Do the follow-ups of each step of a node."""
        replica = node.replica
        if replica is None:
            return
        self.settle(node)
        self.settle_deletes(node)
        self.checks.after(node, self.now_ms)
        if replica.in_sync is not None and replica.in_sync.unsent:
            self.propose(node, replica.in_sync.sent())
        self.answer_parked(node)
        self.fetch(node)

    def settle_deletes(self, node: Node) -> None:
        """Answer DeleteRecords: an error at another role, or when the time is over."""
        if not node.is_leader:
            node.deleting = []
        if not node.deleting:
            return
        assert node.replica is not None
        assert node.replica.in_sync is not None
        low = node.replica.in_sync.low_watermark(node.log.log_start_offset)
        self.checks.low_watermark(node, low, self.nodes)
        self.deletions += sum(offset <= low for offset, _ in node.deleting)
        node.deleting = [each for each in node.deleting if each[0] > low and self.now_ms < each[1]]

    def settle(self, node: Node) -> None:
        assert node.replica is not None
        waiting = []
        for epoch, batch in node.waiting:
            match node.replica.fate_of(batch.end_offset - 1, True):
                case "PENDING":
                    waiting.append((epoch, batch))
                case "DONE":
                    self.checks.acknowledged(batch)
        node.waiting = waiting

    # --- fetches

    def fetch(self, node: Node) -> None:
        replica = node.replica
        if (
            replica is None
            or not node.is_informed
            or node.leader in (-1, node.node_id)
            or self.now_ms < node.asked_until_ms
        ):
            return
        ask = following.ask(replica, node.log.epochs)
        if ask is None:
            return
        in_sync = node.node_id in node.isr
        if node.throttles[1].holds(TOPIC, 0, self.now_ms, is_in_sync=in_sync):
            self.checks.held(node, in_sync)
            return  # the next tick asks again
        node.asked_until_ms = self.now_ms + FETCH_TIMEOUT_MS
        leader, epoch, start = self.nodes[node.leader], node.broker_epoch, node.log.log_start_offset
        link = node.node_id, leader.node_id
        self.send(lambda: self.arrive(leader, node, epoch, start, ask), link=link, may_be_lost=True)

    def arrive(self, leader: Node, node: Node, broker_epoch: int, start: int, ask: following.Ask) -> None:
        """A fetch is in the socket of the leader, which reads it when it does not stand still."""
        stands_ms, life = self.silences.stands_ms(leader.node_id, self.now_ms), leader.life
        if not stands_ms:
            self.fetched(leader, node, broker_epoch, start, ask)
            return
        self.silences.unread(leader.node_id, node.node_id, self.now_ms)

        def read() -> None:
            if leader.life == life:
                self.fetched(leader, node, broker_epoch, start, ask)

        self.at(stands_ms, read)

    def fetched(self, leader: Node, node: Node, broker_epoch: int, start: int, ask: following.Ask) -> None:
        if leader.replica is None:
            return
        self.silences.read(leader, node.node_id, self.now_ms)
        fetch = leading.FollowerFetch(
            node.node_id, broker_epoch, ask.leader_epoch, ask.offset, ask.last_fetched_epoch, start
        )
        verdict = leading.judge(leader.replica, leader.log, fetch, self.has_mirrored)
        if verdict.is_acknowledging:
            leader.replica.fetched(node.node_id, broker_epoch, ask.offset, start, self.now_ms)
            self.checks.fetched(leader, node.node_id)
            self.after(leader)
            if ask.offset == leader.log.written_end_offset:
                leader.parked.append((node.node_id, broker_epoch, start, ask, self.now_ms + WAIT_MS))
                return
        self.answer(leader, node, ask, verdict)

    def answer_parked(self, leader: Node) -> None:
        """The mark of the leader may be news to the follower: Kafka answers with the next record, or after the wait."""
        parked, leader.parked = leader.parked, []
        for entry in parked:
            node_id, broker_epoch, start, ask, until_ms = entry
            if ask.offset < leader.log.written_end_offset or self.now_ms >= until_ms:
                assert leader.replica is not None
                fetch = leading.FollowerFetch(
                    node_id, broker_epoch, ask.leader_epoch, ask.offset, ask.last_fetched_epoch, start
                )
                verdict = leading.judge(leader.replica, leader.log, fetch, self.has_mirrored)
                if self.draw.random() < self.faults.late:
                    # A broker with threads may have judged it before it became a follower.
                    verdict = leading.Verdict(is_acknowledging=True)
                self.answer(leader, self.nodes[node_id], ask, verdict)
            else:
                leader.parked.append(entry)

    def answer(self, leader: Node, node: Node, ask: following.Ask, verdict: leading.Verdict) -> None:
        """The records of an answer are read when it leaves. In a broker with threads, like Kafka's, the leader may have
        appended the records of a later leader by then. Records that were truncated in the meantime are not sent (a cut
        slice ends the connection).
        """
        assert leader.replica is not None
        self.silences.answers(leader, node.node_id, self.now_ms)
        life, high, start = leader.life, leader.replica.high["offset"], leader.log.log_start_offset
        cuts, limit = leader.log.cuts, self.draw.randint(1, ANSWER_MAX)

        def leave() -> None:
            if leader.life != life or leader.log.cuts != cuts:
                return
            log = leader.log
            batches = [batch for batch in log.batches[: log.written] if batch.end_offset > ask.offset][:limit]
            if verdict.diverging is not None or (batches and batches[0].base_offset > ask.offset):
                batches = []  # diverging, or deleted in the meantime
            batches = self.throttled(leader, node, batches)
            said = following.Answer(high, start, verdict.diverging, [batch.span for batch in batches])
            self.send(
                lambda: self.answered(node, ask, verdict.error, said, batches, leader),
                link=(leader.node_id, node.node_id),
                may_be_lost=True,
            )

        late_ms = self.draw.randint(0, 2000) if self.draw.random() < self.faults.late else 0
        self.at(late_ms, leave)

    def throttled(self, leader: Node, node: Node, batches: list[Batch]) -> list[Batch]:
        """Return the batches that the leader sends now."""
        state = leader.replica.in_sync if leader.replica is not None else None
        if state is None or not batches:
            return batches
        throttle, in_sync = leader.throttles[0], node.node_id in state.isr
        if throttle.holds(TOPIC, 0, self.now_ms, is_in_sync=in_sync):
            self.checks.held(node, in_sync)
            return []
        throttle.record(len(batches), self.now_ms)
        if not in_sync:
            self.checks.copied(leader, len(batches), self.now_ms)
        return batches

    def answered(
        self,
        node: Node,
        ask: following.Ask,
        error: ErrorCode,
        said: following.Answer,
        batches: list[Batch],
        leader: Node,
    ) -> None:
        replica = node.replica
        if replica is None:
            return
        if error == ErrorCode.NONE:
            step = following.take(replica, ask, said, node.log.epochs)
            self.carry_out(node, following.begin_again(step, node.log.log_start_offset), batches)
            node.asked_until_ms = -1
        elif error == ErrorCode.OFFSET_OUT_OF_RANGE and following.is_expected(replica, ask, node.log.epochs):
            if leader.is_leader and leader.replica is not None and leader.replica.leader_epoch == ask.leader_epoch:
                # ListOffsets, in the leader epoch of the fetch.
                log = leader.log
                step = following.out_of_range(node.log.end_offset, log.log_start_offset, log.written_end_offset)
                self.carry_out(node, following.begin_again(step, node.log.log_start_offset, log.log_start_offset), [])
                node.asked_until_ms = -1
        else:
            node.asked_until_ms = self.now_ms + 50  # backoff
        self.after(node)

    def carry_out(self, node: Node, step: following.Step, batches: list[Batch]) -> None:
        """Do what a step says, in its order."""
        replica, log = node.replica, node.log
        assert replica is not None
        if step.truncate_to >= 0 and step.truncate_to < log.end_offset:
            self.truncations += 1
            self.flush(node)
            self.note(f"{node.node_id} truncates to {step.truncate_to}")
            removed = log.truncate(step.truncate_to)
            self.checks.truncated(node, removed)
            replica.truncated(log.end_offset)
        if step.restart_at >= 0:
            self.note(f"{node.node_id} begins again at {step.restart_at}")
            self.flush(node)
            log.restart_at(step.restart_at)
            replica.restarted(step.restart_at)
            self.checks.restarted(node)
        node.throttles[1].record(step.append, self.now_ms)
        for batch in batches[: step.append]:
            log.append(batch)
            replica.report_staged(batch.end_offset, 1)
        if step.append:
            self.flush_soon(node)
        if step.high_watermark >= 0:
            replica.learn(step.high_watermark)
            if step.append:
                self.note(f"{node.node_id} appends {batches[: step.append]}, high watermark {step.high_watermark}")
        node.leader_start = max(node.leader_start, step.log_start_offset)
        node.delete_as_leader()
