"""Links that are cut in one direction, and leaders that stand still, in the replication simulation; and the invariants
of followers that leave in-sync sets because they have stopped fetching (replica.silence).

Its draws come from their own stream, so that worlds without cuts stay the same.
"""

from __future__ import annotations

import random
from collections import deque

from broker_cy.replica.in_sync import InSync, Proposal
from broker_cy.replica.silence import FORGIVEN_MS, LATE_MS
from tests.sim.replica_node import Node

LIMIT_MS = 400
TICK_MS = 400  # between two ticks of a node, at most
CUTS_MS = ((300, 6_000), (450, 1_000))
STAND_MS = (100, 2_500)
# The time between a leader's first turn after it stood still, and the one in which it reads pending requests, or ticks.
TURN_MS = 10


class Silences:
    """These invariants are checked:

    - If a follower leaves because of its silence, the leader has read no request from it for the limit since its last
      answer, or the follower has not read for longer than two ticks may be apart. The leader has heard another broker,
      and enough members are left.
    - A silent follower that lacks records leaves soon after its limit.
    - It leaves at most as often as its limit may double.
    """

    def __init__(self, seed: int, lag_max_ms: int) -> None:
        self.draw = random.Random(f"silence {seed}")
        self.limit_ms = self.draw.choice([0, 0, LIMIT_MS])
        self.cuts_ms = self.draw.choice(CUTS_MS)
        self.often_ms = self.draw.choice([200, 800, 3_000])
        self.lag_max_ms = lag_max_ms
        self.drops = 0
        self.cut_until_ms: dict[tuple[int, int], int] = {}  # by (from, to)
        self.stands_until_ms: dict[int, int] = {}
        self._stood_ms: dict[int, int] = {}  # when it last stood still
        self._heard_ms: dict[tuple[int, int], int] = {}  # by (leader, follower): a fetch was read
        self._answered_ms: dict[tuple[int, int], int] = {}
        self._unread: dict[tuple[int, int], list[int]] = {}  # when they arrived
        self._dropped_ms: dict[tuple[int, int], deque[int]] = {}

    # --- faults

    def disturb(self, ids: list[int], now_ms: int) -> int:
        """Cut a link, or let a node stand still. Returns when the next one is due, in milliseconds."""
        if self.draw.random() < 0.6:
            link = self.draw.choice(ids), self.draw.choice(ids)
            self.cut_until_ms[link] = now_ms + self.draw.randint(*self.cuts_ms)
        else:
            self.stands_until_ms[self.draw.choice(ids)] = now_ms + self.draw.randint(*STAND_MS)
        return self.draw.randint(1, 2 * self.often_ms)

    def end(self) -> None:
        """No link is cut any more."""
        self.cut_until_ms.clear()
        self.stands_until_ms.clear()

    def is_cut(self, link: tuple[int, int], now_ms: int) -> bool:
        return self.cut_until_ms.get(link, 0) > now_ms

    def stands_ms(self, node_id: int, now_ms: int) -> int:
        """For how long the node will stand still."""
        left_ms = self.stands_until_ms.get(node_id, 0) - now_ms
        if left_ms <= 0:
            return 0
        self._stood_ms[node_id] = now_ms + left_ms
        return left_ms + self.draw.randint(0, TURN_MS)

    # --- what the world knows

    def unread(self, leader: int, follower: int, now_ms: int) -> None:
        """A fetch has arrived at a leader that stands still."""
        self._unread.setdefault((leader, follower), []).append(now_ms)

    def read(self, leader: Node, follower: int, now_ms: int) -> None:
        """The leader has read a fetch."""
        self._unread.pop((leader.node_id, follower), None)
        leader.silence.fetched(follower, now_ms)
        self._heard_ms[leader.node_id, follower] = now_ms

    def answers(self, leader: Node, follower: int, now_ms: int) -> None:
        """The leader answers a fetch."""
        leader.silence.answered(follower, now_ms)
        self._answered_ms[leader.node_id, follower] = now_ms

    def restarted(self, leader: int) -> None:
        for kept in (self._heard_ms, self._answered_ms, self._unread, self._dropped_ms):
            for key in [each for each in kept if each[0] == leader]:
                kept.pop(key)

    # --- checks

    def ticked(self, leader: Node, before: Proposal | None, now_ms: int) -> None:
        """The leader has looked for followers that are to leave."""
        state = leader.replica.in_sync if leader.replica is not None else None
        if state is None:
            return
        if state.proposal is not None and state.proposal is not before and state.proposal.added < 0:
            self._check_drops(leader, state, state.proposal, now_ms)
        if state.proposal is None and self.limit_ms:
            self._check_quiet(leader, state, now_ms)

    def _quiet_ms(self, leader: int, follower: int, now_ms: int) -> int:
        key = leader, follower
        return now_ms - max(self._heard_ms.get(key, now_ms), self._answered_ms.get(key, -1))

    def _hears_others(self, leader: int, but: set[int], now_ms: int) -> bool:
        return any(
            now_ms - heard_ms < LIMIT_MS
            for (at, follower), heard_ms in self._heard_ms.items()
            if at == leader and follower not in but
        )

    def _check_drops(self, leader: Node, state: InSync, proposal: Proposal, now_ms: int) -> None:
        end_offset = leader.log.written_end_offset
        left = {each for each, _ in proposal.isr}
        for each in state.isr - left:
            follower = state.followers.get(each)
            if follower is None:
                continue
            is_slow = follower.end_offset != end_offset and now_ms - follower.caught_up_ms > self.lag_max_ms
            if is_slow:
                continue
            name = f"{leader.node_id} drops {each}"
            self.drops += 1
            needed = min(state.min_isr, len(state.followers) + 1)
            assert len(left) >= needed, f"{name}, and {sorted(left)} are too few"
            unread_ms = self._unread.get((leader.node_id, each), [now_ms])[0]
            assert unread_ms >= now_ms - LATE_MS, f"{name}, whose fetch it has not read"
            assert not any(entry[0] == each for entry in leader.parked), f"{name}, whose fetch it has not answered"
            quiet_ms = self._quiet_ms(leader.node_id, each, now_ms)
            assert quiet_ms >= self.limit_ms > 0, f"{name} after {quiet_ms} ms"
            stood = self._stood_ms.get(leader.node_id, -1) >= now_ms - quiet_ms - LIMIT_MS
            assert stood or self._hears_others(leader.node_id, {each}, now_ms), f"{name}, and hears nobody"
            if quiet_ms < self.lag_max_ms:
                times = self._dropped_ms.setdefault((leader.node_id, each), deque())
                times.append(now_ms)
                while times[0] < now_ms - FORGIVEN_MS:
                    times.popleft()
                doublings = (self.lag_max_ms // self.limit_ms).bit_length()
                assert len(times) <= doublings + 1, f"{name} for the {len(times)}th time"

    def _check_quiet(self, leader: Node, state: InSync, now_ms: int) -> None:
        """Raises AssertionError if a member that should have left is still in sync, and no proposal removes it."""
        end_offset = leader.log.written_end_offset
        at = leader.node_id
        late_ms = 2 * TICK_MS
        quiet = {
            each
            for each, follower in state.followers.items()
            if each in state.isr
            and 0 <= follower.end_offset < end_offset
            and not any(entry[0] == each for entry in leader.parked)
            and self._quiet_ms(at, each, now_ms) > leader.silence.limit_ms(each) + late_ms
        }
        since_ms = now_ms - max((self._quiet_ms(at, each, now_ms) for each in quiet), default=0)
        if self._stood_ms.get(at, -1) >= since_ms or len(state.isr) - len(quiet) < max(state.min_isr, 2):
            return
        others = {each for each in state.isr if self._quiet_ms(at, each, now_ms) > LIMIT_MS}
        if quiet and quiet == others and self._hears_others(at, quiet, now_ms):
            raise AssertionError(f"{at} waits for {sorted(quiet)}, which have stopped fetching")
