"""The invariants of the replication simulation, checked after each step of a node, at elections and at the end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from broker_cy.replica.in_sync import Proposal
from broker_cy.replica.replica import Role
from tests.sim.replica_node import Batch, Node


class Checks:
    """These invariants are checked:

    - A record that is acknowledged with acks=all was in the log of each member of the in-sync set, and is in that of
      each later leader, once. Records below a high watermark never change.
    - A log has no records of a later leader epoch than its replica.
    - A node's high watermark never goes back, and is not below its log start.
    - The high watermark moves exactly as far as the in-sync set and min.insync.replicas allow; a replica that has left
      the set does not hold it while it copies what it missed.
    - A replica that joins the set has all records that were committed when its joining was proposed.
    - When a DeleteRecords is answered, its records are deleted on all replicas that are served or in sync, as their
      leader knows. It waits for no other replica, and for none that has reported the deletion.
    - A throttle holds no replica that is in sync. One broker copies at most its rate to the others, over all windows,
      plus one answer.
    - Proposed in-sync sets are within the replicas, and contain no broker that is known to be fenced or to stop. A
      replica that joins a set smaller than min.insync.replicas is not due to leave it.
    """

    def __init__(self, min_isr: int, lag_max_ms: int, throttle: int, windows: tuple[int, int]) -> None:
        self.min_isr = min_isr
        self.throttle = throttle  # batches a second
        self.windows, self.window_ms = windows
        self.holds_count = 0
        self._copies: dict[int, list[tuple[int, int, int]]] = {}  # by leader: (its life, when, batches)
        self.lag_max_ms = lag_max_ms
        self.acked: dict[int, int] = {}  # record -> offset
        self.committed: dict[int, Batch] = {}  # by base offset: what could be read
        self.highs: dict[int, tuple[int, int]] = {}  # (life, high watermark) of each node
        # (leader, its epoch) -> follower that has left the set -> where the log ended at its first fetch since; -1
        self.left: dict[tuple[int, int], dict[int, int]] = {}
        self._sets: dict[tuple[int, int], frozenset[int]] = {}
        self._seen: dict[int, tuple[int, int]] = {}  # (life, offset up to which its log was compared)

    def after(self, node: Node, now_ms: int) -> None:
        replica = node.replica
        if replica is None:
            return
        high = replica.high["offset"]
        life, before = self.highs.get(node.node_id, (-1, -1))
        if life == node.life:
            assert high >= before, f"the high watermark of {node.node_id} went back from {before} to {high}"
        else:
            before = -1
        self.highs[node.node_id] = (node.life, high)
        assert high >= node.log.log_start_offset, f"{node.node_id}: {high} is below its log start"
        assert high <= node.log.written_end_offset, f"{node.node_id}: {high} is behind its log"
        newest = node.log.epochs.latest_epoch
        assert newest <= replica.leader_epoch or not node.is_informed, f"{node.node_id} has records of a later epoch"
        self.compare(node, high)
        if replica.role == Role.LEADER:
            self.check_bound(node, before, high)

    def restarted(self, node: Node) -> None:
        """Its log was replaced by an empty one, which may begin within a batch that its leader has cut."""
        self.highs.pop(node.node_id, None)
        self._seen.pop(node.node_id, None)

    def compare(self, node: Node, high: int) -> None:
        life, seen = self._seen.get(node.node_id, (-1, -1))
        if life != node.life:
            seen = -1
        if high <= seen:
            return
        for batch in reversed(node.log.batches[: node.log.written]):
            if batch.end_offset <= seen:
                break
            if batch.end_offset <= high:
                known = self.committed.setdefault(batch.base_offset, batch)
                assert known == batch, f"{node.node_id} has {batch} committed, not {known}"
        self._seen[node.node_id] = (node.life, high)

    def truncated(self, node: Node, removed: Iterable[Batch]) -> None:
        for batch in removed:
            assert self.committed.get(batch.base_offset) != batch, (
                f"{node.node_id} truncated {batch}, which is committed"
            )
        life, seen = self._seen.get(node.node_id, (-1, -1))
        self._seen[node.node_id] = (life, min(seen, node.log.end_offset))

    def check_bound(self, node: Node, before: int, high: int) -> None:
        """The rule again, from its parts."""
        assert node.replica is not None
        state = node.replica.in_sync
        assert state is not None
        key = node.node_id, state.leader_epoch
        left = self.left.setdefault(key, {})
        left.update(dict.fromkeys(self._sets.get(key, state.isr) - state.isr, -1))
        self._sets[key] = state.isr
        if len(state.isr) < self.min_isr:
            assert high == before or before < 0, (
                f"{node.node_id}: the high watermark moved with {sorted(state.isr)} in sync"
            )
            return
        needed = [node.replica.local_end_offset]
        for broker_id, follower in state.followers.items():
            status = node.broker_statuses.get(broker_id)
            is_near = state.now_ms - follower.caught_up_ms <= self.lag_max_ms
            may_join = status is not None and status.is_eligible and status.epoch == follower.broker_epoch
            is_proposed = state.proposal is not None and broker_id in dict(state.proposal.isr)
            is_near = is_near and broker_id not in left
            if broker_id in state.isr or is_proposed or (may_join and is_near):
                needed.append(follower.end_offset)
        assert high >= min(needed), f"{node.node_id}: the high watermark is {high}, and {min(needed)} is everywhere"

    def fetched(self, leader: Node, follower: int) -> None:
        """A fetch of the follower was acknowledged. A follower that has left the set counts again once it has all
        records that its leader had at such a fetch.
        """
        assert leader.replica is not None
        assert leader.replica.in_sync is not None
        state = leader.replica.in_sync
        left = self.left.get((leader.node_id, state.leader_epoch), {})
        if follower in left:
            if left[follower] < 0:
                left[follower] = leader.log.written_end_offset
            if state.followers[follower].end_offset >= left[follower]:
                del left[follower]

    def low_watermark(self, leader: Node, low: int, nodes: Mapping[int, Node]) -> None:
        """A leader reports that everything before `low` is deleted on all replicas."""
        assert leader.replica is not None
        state = leader.replica.in_sync
        assert state is not None
        reported = [leader.log.log_start_offset]
        for broker_id, follower in state.followers.items():
            status, node = leader.broker_statuses.get(broker_id), nodes[broker_id]
            if broker_id not in state.isr and not (status is not None and status.is_eligible):
                continue
            is_known = status is None or status.epoch == follower.broker_epoch
            reported.append(follower.log_start_offset if is_known else -1)
            if node.replica is not None and status is not None and status.epoch == node.broker_epoch:
                # A log that begins again with a batch that its leader has cut shows nothing of it.
                start, high = node.log.log_start_offset, node.replica.high["offset"]
                assert low <= start or high <= start, (
                    f"{broker_id} has {start} to {high}, and everything before {low} is said to be deleted"
                )
        assert low >= min(reported), f"DeleteRecords waits at {low}, and {reported} is deleted"

    def proposed(self, node: Node, proposal: Proposal, replicas: tuple[int, ...]) -> None:
        for broker_id, _ in proposal.isr:
            assert broker_id in replicas
        if proposal.added >= 0:
            self._check_stays(node, proposal)
            status = node.broker_statuses[proposal.added]
            assert status.is_eligible, f"{node.node_id} proposes {proposal.added}, which is fenced or stops: {proposal}"

    def _check_stays(self, node: Node, proposal: Proposal) -> None:
        """A replica that joins a set that is too small need not leave it immediately."""
        assert node.replica is not None
        state = node.replica.in_sync
        assert state is not None
        if len(state.isr) >= min(self.min_isr, len(state.followers) + 1):
            return
        follower = state.followers[proposal.added]
        late_ms = state.now_ms - follower.caught_up_ms
        assert follower.end_offset == node.replica.local_end_offset or late_ms <= self.lag_max_ms, (
            f"{node.node_id} proposes {proposal.added}, which is {late_ms} ms behind, and leaves again"
        )

    def joined(self, node: Node, high: int) -> None:
        """It has joined the in-sync set, and had everything below `high` when that was proposed."""
        end_offset = node.log.written_end_offset
        assert end_offset >= high, f"{node.node_id} is in sync, and ends at {end_offset}; {high} was committed"

    def held(self, node: Node, is_in_sync: bool) -> None:
        """A throttle has held the replica."""
        self.holds_count += 1
        assert not is_in_sync, f"a throttle holds {node.node_id}, which is in sync"

    def copied(self, leader: Node, batches: int, now_ms: int) -> None:
        """A leader has sent to a replica that is not in sync."""
        # Older copies may have been forgotten with the window that counted them.
        since_ms = now_ms - (self.windows - 1) * self.window_ms
        kept = [each for each in self._copies.get(leader.node_id, ()) if each[0] == leader.life and each[1] > since_ms]
        before = sum(count for _, _, count in kept)
        assert before * 1000 <= self.throttle * self.windows * self.window_ms, (
            f"{leader.node_id} has copied {before} batches, and copies {batches} more"
        )
        self._copies[leader.node_id] = [*kept, (leader.life, now_ms, batches)]

    def acknowledged(self, batch: Batch) -> None:
        assert batch.ident not in self.acked
        self.acked[batch.ident] = batch.base_offset

    def leads(self, node: Node) -> None:
        """A node begins to lead: it has everything that was acknowledged and not deleted."""
        self.holds(node, node.log.batches)

    def holds(self, node: Node, batches: list[Batch]) -> None:
        there = {batch.ident: batch.base_offset for batch in batches}
        assert len(there) == len(batches), f"{node.node_id} has a record twice"
        first = batches[0].base_offset if batches else node.log.base
        for ident, offset in self.acked.items():
            if offset >= first:
                assert there.get(ident) == offset, f"{node.node_id} lacks record {ident}, acknowledged at {offset}"
