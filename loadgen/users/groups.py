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

from broker_cy.client.consumer_member import ConsumerMember
from broker_cy.client.group_member import Assign, Revoke, Send, State
from loadgen.net.cluster import GROUP, RETRY_S, Cluster, Refused
from loadgen.net.connection import NetError
from loadgen.pace.timer import NS
from loadgen.users.base import LOOK_S, LoadUser
from loadgen.users.fetching import Fetcher
from loadgen.users.settings import Fetching

# A member that waits for the group checks again after this time if nothing wakes it.
IDLE_S = 1.0


class Session:
    """A user's part in its group. `commits`: whether the user's offsets are committed before each rebalance.

    `consumed`: the next offset of each partition that the user has finished with. `partitions` is the number of
    partitions of the topic, which the leader distributes.
    """

    def __init__(
        self,
        user: LoadUser,
        member: ConsumerMember,
        fetcher: Fetcher,
        fetching: Fetching,
        partitions: int,
        *,
        commits: bool,
    ) -> None:
        self._user, self.member, self._fetcher, self._commits = user, member, fetcher, commits
        self._partitions = partitions
        self._from = fetching.from_
        self._coordination: Cluster = user.new_cluster()
        self.consumed: dict[int, int] = {}
        self.ready = Event()
        self.problem = "no answer"
        self._wake = Event()
        self._is_away = self._is_paused = self._is_busy = False
        self._known_fenced = 0
        # Since when the member has had no partitions to read; None while it has them.
        self._stalled_since_s: float | None = None
        self._greenlet: gevent.Greenlet[[], None] | None = None

    # ------------------------------------------------------------------------------------------------ the user's side

    def start(self, timeout_s: float) -> None:
        """Join, and wait for a part. Raises NetError if none arrives in time."""
        self._greenlet = gevent.spawn(self._run)
        if not self.ready.wait(timeout_s):
            self._greenlet.kill()
            group = self.member.settings.group_id
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
        topic = self._fetcher.topic
        send = self.member.commit({(topic, number): offset for number, offset in self.consumed.items()})
        if send is not None:
            self._exchange(send)
            self._wake.set()

    def relocate(self) -> None:
        """Continue at the committed offsets."""
        self._drop()
        self.member.relocate()
        self._wake.set()

    def leave(self) -> None:
        """Leave the group with LeaveGroup, and stay away until `come_back`."""
        self._is_away = True
        if self._commits:
            self.commit()
        self._count("leaves")
        self._drop()
        send = self.member.leave()
        self._stalled_since_s = None
        if send is not None:
            self._exchange(send)

    def kill(self) -> None:
        """Disappear without LeaveGroup until `come_back`: the group only notices the session timeout."""
        self._is_away = True
        self._count("kills")
        self._drop()
        self.member.forget()
        self._stalled_since_s = None
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
            send = None if self.member.settings.instance_id is not None else self.member.leave()
            if send is not None:
                self._exchange(send)
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
        member = self.member
        while True:
            self._wake.clear()
            if self._is_away or self._is_paused:
                self._wake.wait(IDLE_S)
                continue
            may_join = not self._is_busy
            if member.wants_to_join and may_join and self.ready.is_set():
                self._revoke()
                continue
            if member.is_located and not self.ready.is_set():
                self._locate()
                continue
            if member.state is State.FAILED:
                # Begin again: a load generator also loads a cluster that refuses its members.
                member.forget()
                self._wake.wait(RETRY_S)
                continue
            now_s = time.monotonic()
            if self._stalled_since_s is None and member.wants_to_join and may_join:
                self._stalled_since_s = now_s
            action = member.next(now_s, may_join=may_join)
            if isinstance(action, Send):
                self._exchange(action)
            elif isinstance(action, Assign):
                member.distribute(action, {self._fetcher.topic: self._partitions})
            elif isinstance(action, Revoke):
                # Partitions that the user has not begun to read.
                member.revoked(action.parts)
            else:
                self._wake.wait(max(0.001, min(member.wait_s(now_s, may_join=may_join), IDLE_S)))

    def _revoke(self) -> None:
        """Give the partitions up before the member joins again."""
        if self._commits:
            self.commit()
        self._drop()
        self.member.revoked(self.member.owned)

    def _locate(self) -> None:
        """Find the start offset of partitions without a committed offset, and begin."""
        member = self.member
        epoch = member.epoch
        positions = {number: offset for (_, number), offset in member.committed.items() if offset >= 0}
        missing = sorted(number for _, number in member.owned if number not in positions)
        try:
            if missing:
                positions |= self._fetcher.begin(missing, self._from)
        except (NetError, Refused) as error:
            self.problem = str(error)
            self._fetcher.forget()
            self._wake.wait(RETRY_S)
            return
        if epoch != member.epoch or self._is_away:
            return
        self._fetcher.assign(positions)
        self.consumed = dict(positions)
        since_s, self._stalled_since_s = self._stalled_since_s, None
        if since_s is not None:
            now_ns, stall_ns = time.monotonic_ns(), int((time.monotonic() - since_s) * NS)
            self._user.meter("Rebalance").done(now_ns - stall_ns, now_ns - stall_ns, now_ns, len(positions))
            self._count("rebalances")
        self.ready.set()

    def _exchange(self, send: Send) -> None:
        """Send a request to the coordinator, and count it."""
        member, meter = self.member, self._user.meter(send.api)
        group_id = member.settings.group_id
        sent_ns = time.monotonic_ns()
        try:
            coordinator = self._coordination.coordinator(GROUP, group_id)
            sent_ns = time.monotonic_ns()
            timeout_s = self._coordination.timeout_s + send.more_s
            answer = coordinator.call(send.request, send.answer, at_most=send.at_most, timeout_s=timeout_s)
        except (NetError, Refused) as error:
            if member.is_of_now(send):
                self.problem = str(error)
                meter.failed(error.name, sent_ns, sent_ns, time.monotonic_ns())
            member.no_answer(send, time.monotonic())
        else:
            name = member.take(send, answer, time.monotonic())
            now_ns = time.monotonic_ns()
            if name:
                self.problem = f"{send.api}: {name}"
                meter.failed(name, sent_ns, sent_ns, now_ns)
            else:
                meter.done(sent_ns, sent_ns, now_ns)
        if member.is_coordinator_lost:
            member.is_coordinator_lost = False
            self._coordination.forget_coordinator(GROUP, group_id)
        if (fenced := member.fenced - self._known_fenced) > 0:
            self._known_fenced = member.fenced
            self._user.load.book.count("fenced", fenced)
