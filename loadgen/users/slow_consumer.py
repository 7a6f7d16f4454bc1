"""Slow members of a group: `slow-consumer`. The lag grows, and rebalances wait for them.

A poll returns at most `max_poll_records` records; each takes some time to process, and then they are committed. A
member that takes longer than `max_poll_interval_ms` leaves the group, as Kafka's client does, finishes its records, and
joins again at its next poll. Such leaves are counted as `max.poll.interval exceeded`.
"""

from __future__ import annotations

from collections import deque

from loadgen.users.fetching import Span
from loadgen.users.group_member import GroupUser
from loadgen.users.settings import Slow, settings_of

EXCEEDED = "max.poll.interval exceeded"


class SlowConsumer(GroupUser):
    """Polls, waits as long as its records need, and commits them."""

    abstract = True

    def connect(self) -> None:
        self.slow = settings_of(Slow, self.spec)
        # Records that were fetched and not polled yet: at most one answer.
        self._fetched: deque[Span] = deque()
        self._epoch = (0, 0)
        super().connect()

    def perform(self, due_ns: int) -> None:
        if not self.session.await_part():
            return
        if self._epoch != self.session.member.epoch:
            self._epoch = self.session.member.epoch
            self._fetched.clear()
        if not self._fetched:
            self._fetched.extend(self.fetcher.poll(self.wait_ms(self.fetching.max_wait_ms)))
        with self.session.busy():
            if self._epoch != self.session.member.epoch or not self.session.ready.is_set():
                self._fetched.clear()
                return
            done, records = self._polled()
            if not records:
                return
            self._process(records)
            if self._epoch == self.session.member.epoch:
                self.session.consumed |= done
                self.session.commit()

    def _polled(self) -> tuple[dict[int, int], int]:
        """Take the records of one poll; returns the next offsets after them, and their number."""
        done: dict[int, int] = {}
        left = self.slow.max_poll_records
        while self._fetched and left:
            span = self._fetched.popleft()
            if span.records > left:
                middle = span.first + left
                self._fetched.appendleft(span._replace(first=middle, records=span.records - left))
                done[span.partition] = middle
                left = 0
            else:
                done[span.partition] = span.next
                left -= span.records
        return done, self.slow.max_poll_records - left

    def _process(self, records: int) -> None:
        slow = self.slow
        needed_s = slow.delay_ms / 1000
        if slow.records_per_second:
            needed_s += records / slow.records_per_second
        allowed_s = slow.max_poll_interval_ms / 1000
        if needed_s <= allowed_s:
            self.sleep(needed_s)
        elif self.sleep(allowed_s):
            self.load.book.count(EXCEEDED)
            self.session.leave()
            self.sleep(needed_s - allowed_s)
            self.session.come_back()
