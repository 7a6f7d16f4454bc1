"""The followers that have stopped fetching from this broker. Partitions need not wait for them until
replica.lag.time.max.ms is over: a connection stays open although no data passes, in one direction or both.

A pure state machine, one for all partitions that a broker leads. Its inputs are the fetches of followers (`fetched`),
the answers that leave (`answered`), members that left in-sync sets because of it (`dropped`), and time (`tick`).

    a fetch that waits here         no silence: the follower waits for the leader
    a long answer                   a slow link needs time for it: the limit begins that much later (SENT_BYTES_PER_MS)
    a late tick                     this broker stood still, and fetches may wait in its sockets: no fetch was missed
    no follower is heard            this broker may be the one that is cut off: no follower counts as silent
    dropped, and back               a flap (KAFKA-19996): the limit doubles, up to replica.lag.time.max.ms, and halves
                                    again after each FORGIVEN_MS

Invariants: a broker is silent after a tick only if another broker was heard in the last `base_ms`, and no fetch of the
silent one was read after the answer to its last one for its limit plus the time that a slow link takes. A broker that
has fetched is not silent. A broker that no longer follows partitions here becomes silent, too; this concerns no
partition.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Final

# Two ticks that are further apart mean that this broker stood still. It ticks four times a second.
LATE_MS: Final = 500
# A doubled limit is halved when its broker was not dropped for this time.
FORGIVEN_MS: Final = 120_000
# The slowest link whose follower is not taken for silent while an answer is on its way: 32 Mbit/s.
SENT_BYTES_PER_MS: Final = 4_000
_NEVER: Final = -1


class _Heard:
    """The state of one follower. Times exclude the periods in which this broker stood still."""

    __slots__ = ("asking", "heard_ms", "is_dropped", "limit_ms", "limited_ms", "quiet_from_ms", "sending_ms")

    def __init__(self, limit_ms: int) -> None:
        self.asking = 0  # fetches that are not answered
        self.heard_ms = 0  # the last fetch
        self.quiet_from_ms = 0  # the last fetch, or the answer to it
        self.sending_ms = 0  # how long the last answer may be on its way
        self.limit_ms = limit_ms
        self.limited_ms = 0  # when the limit was changed
        self.is_dropped = False


class FollowerSilence:
    """`silent` has the brokers that have stopped fetching; partitions look at it, and only this class changes it."""

    def __init__(self, limit_ms: int, lag_max_ms: int, brokers: Container[int]) -> None:
        """`limit_ms` is the first limit; 0: no broker is ever silent. Watching only `brokers` bounds memory."""
        self.silent: set[int] = set()
        self.base_ms = limit_ms
        self._lag_max_ms = max(lag_max_ms, limit_ms)
        self._brokers = brokers
        self._heard: dict[int, _Heard] = {}
        self._stood_ms = 0  # for how long this broker stood still
        self._ticked_ms = _NEVER

    def limit_ms(self, broker_id: int) -> int:
        """How long this broker may be quiet."""
        heard = self._heard.get(broker_id)
        return heard.limit_ms if heard is not None else self.base_ms

    def fetched(self, broker_id: int, now_ms: int) -> None:
        """A fetch of the broker, for any partitions, was read. `answered` follows, even if its connection ends."""
        heard = self._heard.get(broker_id)
        if heard is None:
            if not self.base_ms or broker_id not in self._brokers:
                return
            heard = self._heard[broker_id] = _Heard(self.base_ms)
        heard.asking += 1
        heard.heard_ms = heard.quiet_from_ms = now_ms - self._stood_ms
        self.silent.discard(broker_id)
        if heard.is_dropped:
            heard.is_dropped = False
            heard.limit_ms = min(2 * heard.limit_ms, self._lag_max_ms)
            heard.limited_ms = heard.heard_ms

    def answered(self, broker_id: int, now_ms: int, size_bytes: int = 0) -> None:
        """The answer to a fetch of it leaves, with records of that size, or never will."""
        heard = self._heard.get(broker_id)
        if heard is not None and heard.asking:
            heard.asking -= 1
            heard.quiet_from_ms = now_ms - self._stood_ms
            heard.sending_ms = size_bytes // SENT_BYTES_PER_MS

    def dropped(self, broker_id: int) -> None:
        """It leaves an in-sync set because it is silent."""
        self._heard[broker_id].is_dropped = True

    def tick(self, now_ms: int) -> bool:
        """Returns whether a broker is silent from now on. Called at least each LATE_MS."""
        if self._ticked_ms != _NEVER and now_ms - self._ticked_ms > LATE_MS:
            self._stood_ms += now_ms - self._ticked_ms
        self._ticked_ms = now_ms
        running_ms = now_ms - self._stood_ms
        for broker_id in [each for each in self._heard if each not in self._brokers]:
            del self._heard[broker_id]
            self.silent.discard(broker_id)
        for heard in self._heard.values():
            # Fetches since this broker resumed, and before this tick, count as heard now.
            heard.heard_ms = min(heard.heard_ms, running_ms)
            heard.quiet_from_ms = min(heard.quiet_from_ms, running_ms)
            heard.limited_ms = min(heard.limited_ms, running_ms)
            if heard.limit_ms > self.base_ms and running_ms - heard.limited_ms >= FORGIVEN_MS:
                heard.limit_ms = max(heard.limit_ms // 2, self.base_ms)
                heard.limited_ms = running_ms
        found = {
            broker_id
            for broker_id, heard in self._heard.items()
            if not heard.asking and running_ms - heard.quiet_from_ms >= heard.limit_ms + heard.sending_ms
        }
        if not self._is_anybody_heard_since(running_ms - self.base_ms):
            # Earlier silent followers do not count either: a partition might only now propose their removal.
            found.clear()
            self.silent.clear()
        is_new = not found <= self.silent
        self.silent |= found
        return is_new

    def _is_anybody_heard_since(self, running_ms: int) -> bool:
        return any(heard.heard_ms > running_ms for heard in self._heard.values())
