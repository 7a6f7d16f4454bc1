"""Takes part in a consumer group over gevent's sockets: one greenlet per member talks to the coordinator, like the
heartbeat thread of Kafka's client, while the user polls.

The coordinator has separate connections, so that no heartbeat waits behind a long Fetch.

Counts in the book: `rebalances` (a member got its part), `fenced` (a member learned that the group continued without
it), `leaves`, `kills`, `pauses`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import gevent
from gevent.event import Event

from loadgen.net.cluster import GROUP, RETRY_S, Cluster, Refused
from loadgen.net.connection import NetError
from loadgen.pace.timer import NS
from loadgen.users.base import LOOK_S, LoadUser
from loadgen.users.fetching import Fetcher
from loadgen.users.membership import Ask, Membership, State
from loadgen.users.settings import Fetching

# A member that waits for the group checks again after this time if nothing wakes it.
IDLE_S = 1.0


class Session:
    """A user's part in its group. `commits`: whether the user's offsets are committed before each rebalance.

    `consumed`: the next offset of each partition that the user has finished with.
    """

    def __init__(
        self, user: LoadUser, membership: Membership, fetcher: Fetcher, fetching: Fetching, *, commits: bool
    ) -> None:
        self._user, self.membership, self._fetcher, self._commits = user, membership, fetcher, commits
        self._from = fetching.from_
        self._coordination: Cluster = user.new_cluster()
        self.consumed: dict[int, int] = {}
        self.ready = Event()
        self.problem = "no answer"
        self._wake = Event()
        self._is_away = self._is_paused = self._is_busy = False
        self._known_fenced = 0
        self._greenlet: gevent.Greenlet[[], None] | None = None

    # ------------------------------------------------------------------------------------------------ the user's side

    def start(self, timeout_s: float) -> None:
        """Join, and wait for a part. Raises NetError if none arrives in time."""
        self._greenlet = gevent.spawn(self._run)
        if not self.ready.wait(timeout_s):
            self._greenlet.kill()
            group = self.membership.group
            raise NetError("TIMED_OUT", f"group {group}: not joined in {timeout_s:g} s ({self.problem})", sent=True)

    def await_part(self) -> bool:
        """Wait until the user has its part of the group; returns False if the round ends before that."""
        while not self.ready.is_set() or self._is_paused:
            if self._user.is_over:
                return False
            self.ready.wait(LOOK_S)
            if self._is_paused:
                gevent.sleep(LOOK_S)
        return True

    @contextmanager
    def busy(self) -> Iterator[None]:
        """The user processes polled records meanwhile and does not take part in a rebalance, as with Kafka's client."""
        self._is_busy = True
        try:
            yield
        finally:
            self._is_busy = False
            self._wake.set()

    def commit(self) -> None:
        """Commit the records that the user has processed."""
        ask = self.membership.commit(self.consumed)
        if ask is not None:
            self._exchange(ask)
            self._wake.set()

    def relocate(self) -> None:
        """Continue at the committed offsets."""
        self._drop()
        self.membership.relocate()
        self._wake.set()

    def leave(self) -> None:
        """Leave the group with LeaveGroup, and stay away until `come_back`."""
        self._is_away = True
        if self._commits:
            self.commit()
        self._count("leaves")
        self._drop()
        ask = self.membership.leave()
        if ask is not None:
            self._exchange(ask)

    def kill(self) -> None:
        """Disappear without LeaveGroup until `come_back`: the group only notices the session timeout."""
        self._is_away = True
        self._count("kills")
        self._drop()
        self.membership.forget()
        self._coordination.close()

    def come_back(self) -> None:
        """Act like a process that has just started."""
        self._is_away = False
        self._wake.set()

    def pause(self) -> None:
        """Send nothing until `resume`, like a suspended process."""
        self._is_paused = True
        self._count("pauses")

    def resume(self) -> None:
        """Continue as if nothing had happened."""
        self._is_paused = False
        self._wake.set()

    def close(self) -> None:
        """Leave the group permanently; a static member stays in it until its session ends, as with Kafka's client."""
        if self._greenlet is not None:
            self._greenlet.kill()
            self._greenlet = None
            if self._commits:
                self.commit()
            ask = None if self.membership.instance_id is not None else self.membership.leave()
            if ask is not None:
                self._exchange(ask)
        self._coordination.close()

    # ------------------------------------------------------------------------------------------------ the group's side

    def _count(self, name: str) -> None:
        self._user.load.book.count(name)

    def _drop(self) -> None:
        """Drop all partitions; answers to earlier requests are ignored."""
        self.ready.clear()
        self._fetcher.assign({})
        self.consumed = {}

    def _run(self) -> None:
        membership = self.membership
        while True:
            self._wake.clear()
            if self._is_away or self._is_paused:
                self._wake.wait(IDLE_S)
                continue
            if membership.wants_to_join and not self._is_busy and self.ready.is_set():
                self._revoke()
                continue
            if membership.state is State.STABLE and not membership.must_rejoin and not self.ready.is_set():
                self._locate()
                continue
            now_s = time.monotonic()
            ask = membership.next(now_s, may_join=not self._is_busy)
            if ask is not None:
                self._exchange(ask)
            else:
                self._wake.wait(max(0.001, min(membership.wait_s(now_s), IDLE_S)))

    def _revoke(self) -> None:
        """Give the partitions up before the member joins again."""
        if self._commits:
            self.commit()
        self._drop()

    def _locate(self) -> None:
        """Find the start offset of partitions without a committed offset, and begin."""
        membership = self.membership
        epoch = membership.epoch
        positions = {number: offset for number, offset in membership.committed.items() if offset >= 0}
        missing = [number for number in membership.assigned if number not in positions]
        try:
            if missing:
                positions |= self._fetcher.begin(missing, self._from)
        except (NetError, Refused) as error:
            self.problem = str(error)
            self._fetcher.forget()
            self._wake.wait(RETRY_S)
            return
        if epoch != membership.epoch or self._is_away:
            return
        self._fetcher.assign(positions)
        self.consumed = dict(positions)
        now_s = time.monotonic()
        stall_ns = int(membership.settle(now_s) * NS)
        if stall_ns:
            now_ns = time.monotonic_ns()
            self._user.meter("Rebalance").done(now_ns - stall_ns, now_ns - stall_ns, now_ns, len(positions))
            self._count("rebalances")
        self.ready.set()

    def _exchange(self, ask: Ask) -> None:
        """Send a request to the coordinator, and count it."""
        membership, meter = self.membership, self._user.meter(ask.api)
        sent_ns = time.monotonic_ns()
        name = ""
        try:
            coordinator = self._coordination.coordinator(GROUP, membership.group)
            sent_ns = time.monotonic_ns()
            timeout_s = self._coordination.timeout_s + ask.more_s
            answer = coordinator.call(ask.request, ask.answer, at_most=ask.at_most, timeout_s=timeout_s)
        except (NetError, Refused) as error:
            if membership.is_of_now(ask):
                self.problem = str(error)
                meter.failed(error.name, sent_ns, sent_ns, time.monotonic_ns())
            membership.lost(ask, time.monotonic())
        else:
            name = membership.take(ask, answer, time.monotonic())
            now_ns = time.monotonic_ns()
            if name:
                self.problem = f"{ask.api}: {name}"
                meter.failed(name, sent_ns, sent_ns, now_ns)
            else:
                meter.done(sent_ns, sent_ns, now_ns)
        if membership.is_coordinator_lost:
            membership.is_coordinator_lost = False
            self._coordination.forget_coordinator(GROUP, membership.group)
        if (fenced := membership.fenced - self._known_fenced) > 0:
            self._known_fenced = membership.fenced
            self._user.load.book.count("fenced", fenced)
