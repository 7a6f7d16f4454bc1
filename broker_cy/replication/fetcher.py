"""Fetches partitions that follow one leader, over one connection, in one session. The fetcher manager chooses them.

One request is on its way at a time. A second one follows it when another partition is to be fetched: the leader holds
the first one until it has records for it, up to replica.fetch.wait.max.ms, and answers it when the second one arrives.
A leader of Apache Kafka reads the second one after it has answered the first.

The follower processes an answer in the order of following.Step. All records that it appends are written at the end of
this turn of the loop, and the next request is made right after that. So a fetch takes one turn, and wakes no task: the
loop calls `answered`. An error of one partition, or a failed write, does not delay the other partitions: the partition
is fetched again after replica.fetch.backoff.ms, and earlier at first if one of the two brokers only has newer metadata.
A failed connection is made again after waits that double from NEWS_S up to replica.fetch.backoff.ms, or as soon as the
metadata of the leader change. Memory is bounded by one answer (replica.fetch.response.max.bytes).

The file is long because it is one class: the connection, the request on its way and the partitions in it decide
together when the next request is made.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from broker_cy.core.classes import NamedTuple, dataclass
from broker_cy.core.errors import ErrorCode, KafkaError, WireError
from broker_cy.core.logs import facts
from broker_cy.core.supervision import keep_running
from broker_cy.replica import follower_log, following
from broker_cy.replica.following import Answer, Step
from broker_cy.replication.fetch_session_handler import SESSION_ENDED, Fetched, FetchSessionHandler
from broker_cy.replication.leader_offsets import EARLIEST, LATEST, leader_offsets
from broker_cy.replication.links import Link, LinkFailed, Links
from broker_cy.storage.errors import OffsetOutOfRange, StorageError
from broker_cy.wire.frame import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker_cy.config import BrokerConfig
    from broker_cy.core.clock import Clock
    from broker_cy.replica.partition import Partition
    from broker_cy.replica.throttle import ReplicaThrottle
    from broker_cy.storage.log_manager import LogManager

LOGGER = logging.getLogger("broker_cy.server.replication")

FETCH_VERSION = 17
# The first wait for the metadata of a new leader, which one of the two brokers has later, or before a connection that
# failed is made again; each one is twice as long.
NEWS_S = 0.01
# After so many waits, the wait is always the backoff.
NEWS_MAX = 16
# Logs that are cut because of one answer. Each takes half a millisecond; the others are fetched again in the next turn.
CUT_MAX = 50
_NEWS = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)


@dataclass(frozen=True)
class Follower:
    """The common parts of a broker's fetchers. `broker_epoch` is that of its current registration, `throttle` limits
    the fetched bytes.
    """

    node_id: int
    broker_epoch: Callable[[], int]
    config: BrokerConfig
    clock: Clock
    loop: asyncio.AbstractEventLoop
    links: Links
    logs: LogManager
    flush: Callable[[], int]
    throttle: ReplicaThrottle


class FetcherId(NamedTuple):
    """The partitions of one fetcher, by leader and progress."""

    leader_id: int
    is_far_behind: bool


class LeaderFetcher:
    """Fetches the partitions of a `fetcher_id`. `close` ends it. `misplaced` is called after an answer for a partition
    that seems to belong to the other fetcher of the leader: for one that is far behind, an answer has as many
    bytes as it may have.
    """

    def __init__(
        self,
        follower: Follower,
        fetcher_id: FetcherId,
        misplaced: Callable[[Fetched], None],
        session: FetchSessionHandler | None = None,
    ) -> None:
        self._follower = follower
        self._leader_id, self._is_far_behind = fetcher_id
        self._misplaced = misplaced
        self._session = session or FetchSessionHandler(follower.node_id, follower.config, follower.throttle)
        self._news = asyncio.Event()
        self._link: Link | None = None  # while it fetches
        self._stopped: asyncio.Future[list[Fetched]]  # the end of it, see `_rounds`
        self._is_due = False  # `_ask` will be called
        self._is_urgent = False  # a partition is not fetched yet, and waits for no answer
        self._later: asyncio.TimerHandle | None = None  # when it is to be called without news
        self._deadline = 0.0  # of the answer, on the time of the loop
        self._reachable = asyncio.Event()  # there is a reason to connect again now
        self.failures = 0  # connections that failed in a row, at most NEWS_MAX; it waits before the next one
        self._cut = 0  # logs that were cut since the last answer
        self._refused: set[Partition] = set()  # those with a failed write, until they are fetched again
        self._waits: dict[Partition, int] = {}  # how often each partition has waited for metadata, in a row
        self._task = keep_running(follower.loop, self._run, "fetcher")

    @property
    def is_idle(self) -> bool:
        return self._session.is_empty

    def add(self, partition: Partition) -> None:
        """Fetch a partition whose leader it has become."""
        self._continue(partition)
        self.wake()

    def wake(self) -> None:
        """The leader has registered again, or leads more: if it could not be reached, try now."""
        self.failures = 0
        self._reachable.set()

    def _continue(self, partition: Partition) -> None:
        self._refused.discard(partition)
        partition.on_written = self._written
        self._session.add(partition)
        self._is_urgent = True
        self._notice()

    def remove(self, partition: Partition) -> None:
        if partition.on_written == self._written:
            partition.on_written = None  # else another fetcher has the partition by now
        self._refused.discard(partition)
        self._waits.pop(partition, None)
        self._session.remove(partition)
        self._notice()

    def close(self) -> None:
        self._task.cancel()

    def _written(self, partition: Partition) -> None:
        """The fetched records are written, or the write failed. Without a pause after a failure, the leader would send
        megabytes again and again, as long as a disk is full.
        """
        if partition.replica.error:
            if partition not in self._refused:
                self._refused.add(partition)
                self._retry_later(partition)
            return
        if self._session.note(partition):
            self._is_urgent = True
        self._notice()

    def _notice(self) -> None:
        """There may be something to fetch."""
        self._news.set()
        if self._is_running and not self._is_due and self._may_ask:
            self._ask_soon()

    @property
    def _may_ask(self) -> bool:
        return not self._session.in_flight or (self._is_urgent and self._session.may_overtake)

    @property
    def _is_running(self) -> bool:
        return self._link is not None and not self._stopped.done()

    @property
    def _backoff_s(self) -> float:
        return float(self._follower.config["replica.fetch.backoff.ms"]) / 1000

    # --- the course of it

    async def _run(self) -> None:
        """Fetch for as long as there are partitions; connect again whenever the connection fails."""
        while True:
            if self.is_idle:
                self._news.clear()
                await self._news.wait()
            link: Link | None = None
            try:
                link = await self._connect()
                self._session.restart()
                while not self.is_idle:
                    out_of_range = await self._rounds(link)
                    if out_of_range:
                        await self._look_up(link, out_of_range)
                        # The answer to a second request may have come meanwhile, and was dropped.
                        self._session.restart()
            except (LinkFailed, WireError) as error:
                LOGGER.debug("fetching failed", extra=facts(leader=self._leader_id, reason=str(error)))
                await self._pause()
            finally:
                if link is not None:
                    link.close()

    async def _pause(self) -> None:
        """Wait before the next connection."""
        wait_s = min(NEWS_S * 2**self.failures, self._backoff_s)
        self.failures = min(self.failures + 1, NEWS_MAX)
        self._reachable.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await self._reachable.wait()

    async def _connect(self) -> Link:
        """Raises LinkFailed."""
        return await self._follower.links.connect(self._leader_id)

    async def _rounds(self, link: Link) -> list[Fetched]:
        """Fetch until nothing is left to be fetched, or until the ends of logs have to be looked up, which are
        returned. Raises LinkFailed, WireError.
        """
        self._link, self._stopped = link, self._follower.loop.create_future()
        self._is_due = False
        watch = self._follower.loop.create_task(self._watch(link), name="fetcher")
        try:
            self._ask()
            return await self._stopped
        finally:
            self._link = None
            self._forget_timer()
            watch.cancel()
            if self._stopped.done() and not self._stopped.cancelled():
                # Otherwise a failure in the turn that closes this fetcher would be reported as never retrieved.
                self._stopped.exception()

    async def _watch(self, link: Link) -> None:
        """Close a connection whose answer is overdue. One timer per request would double the cost of a request."""
        loop = self._follower.loop
        while not self._session.in_flight or loop.time() < self._deadline:
            await asyncio.sleep(self._deadline - loop.time() if self._session.in_flight else self._timeout_s)
        self._fail(LinkFailed(f"no answer within {self._timeout_s:g} s"))
        link.close()

    def _ask_soon(self) -> None:
        self._is_due = True
        self._follower.loop.call_soon(self._ask)

    def _ask_after(self, seconds: float) -> None:
        self._forget_timer()
        self._later = self._follower.loop.call_later(seconds, self._ask)

    def _forget_timer(self) -> None:
        if self._later is not None:
            self._later.cancel()
            self._later = None

    def _ask(self) -> None:
        """Send the next fetch, unless no partition is to be fetched."""
        self._is_due = False
        self._forget_timer()
        if not self._is_running or not self._may_ask:
            return
        self._news.clear()
        if self.is_idle:
            self._stopped.set_result([])
            return
        try:
            request = self._session.request(self._follower.broker_epoch(), self._now_ms)
            if request is None:
                self._wait()
                return
            assert self._link is not None
            self._is_urgent = False
            self._deadline = self._follower.loop.time() + self._timeout_s
            self._link.ask(ApiKey.FETCH, FETCH_VERSION, request, self)
        except Exception as error:
            self._fail(error)

    def answered(self, body: memoryview) -> None:
        """See links.Asking."""
        if not self._is_running:
            return
        try:
            self._take_answer(*self._session.take(body))
        except Exception as error:
            self._fail(error)

    def failed(self, error: LinkFailed) -> None:
        """See links.Asking."""
        self._fail(error)

    def _fail(self, error: Exception) -> None:
        """Abandon the connection: `_run` decides on the next step."""
        if self._is_running:
            self._stopped.set_exception(error)

    def _take_answer(self, error_code: int, answers: list[Fetched]) -> None:
        self.failures = 0
        # A partition for which only the high watermark came reports it immediately. Without this flag, the report would
        # cause a request before the write of the other partitions, which would wait until the leader has answered it.
        self._is_due = True
        self._cut = 0
        out_of_range = []
        for found in answers:
            if found.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                out_of_range.append(found)
            else:
                self._guarded(found.partition, self._take, found)
        if out_of_range:
            self._stopped.set_result(out_of_range)
        elif error_code and error_code not in SESSION_ENDED:
            self._ask_after(self._backoff_s)
        else:
            # After the end of this turn, which writes the staged batches: the next request acknowledges them.
            self._ask_soon()

    def _wait(self) -> None:
        """Nothing can be fetched now. No event reports that a throttle was removed: it is checked after
        replica.fetch.backoff.ms, as in Kafka.
        """
        held_ms = self._session.held_ms(self._now_ms)
        if held_ms is not None:
            self._ask_after(min(held_ms / 1000, self._backoff_s))

    @property
    def _now_ms(self) -> int:
        return int(self._follower.clock.monotonic() * 1000)

    @property
    def _timeout_s(self) -> float:
        return float(self._follower.config["replica.socket.timeout.ms"]) / 1000

    def _guarded(self, partition: Partition, work: Callable[..., None], *arguments: object) -> None:
        """Do work for one partition; if that fails, fetch it again after a while."""
        try:
            work(*arguments)
        except (KafkaError, StorageError, OffsetOutOfRange) as error:
            LOGGER.warning(
                "cannot replicate a partition; will retry",
                extra=facts(partition=f"{partition.topic}-{partition.index}", reason=str(error)),
            )
            self._retry_later(partition)

    def _retry_later(self, partition: Partition, wait_s: float | None = None) -> None:
        self._session.pause(partition)
        self._follower.loop.call_later(self._backoff_s if wait_s is None else wait_s, self._retry, partition)

    def _wait_for_news(self, partition: Partition) -> None:
        """It is not leading, or one of us has newer metadata: that comes by itself, and soon."""
        waits = self._waits.get(partition, 0)
        self._waits[partition] = min(waits + 1, NEWS_MAX)
        self._retry_later(partition, min(NEWS_S * 2**waits, self._backoff_s))

    def _retry(self, partition: Partition) -> None:
        if self._session.has(partition) and not partition.closed and not self._is_settling(partition):
            self._continue(partition)

    # --- answers

    def _take(self, found: Fetched) -> None:
        partition, records = found.partition, found.records
        if found.error_code in _NEWS:
            self._wait_for_news(partition)
            return
        if found.error_code:
            self._retry_later(partition)
            return
        if self._waits:
            self._waits.pop(partition, None)
        throttle = self._follower.throttle
        if records is not None and throttle.lists(partition.topic, partition.index):
            throttle.record(len(records), self._now_ms)
        spans = follower_log.spans(partition, records) if records is not None else []
        answer = Answer(found.high_watermark, found.log_start_offset, found.diverging, spans)
        step = following.take(partition.replica, found.asked, answer, partition.log.epochs)
        step = following.begin_again(step, partition.log.log_start_offset)
        if not self._carry_out(partition, step, records):
            return
        if (records is not None and len(records) >= self._session.share_bytes) != self._is_far_behind:
            self._misplaced(found)

    def _is_settling(self, partition: Partition) -> bool:
        """Whether the log was truncated, and nothing may be appended yet."""
        return partition.log in self._follower.logs.truncations

    def _carry_out(self, partition: Partition, step: Step, records: memoryview | None) -> bool:
        """Carry out a step, in its order. Returns False if the partition is fetched again later: its log was cut, and a
        worker must checkpoint that before the next append. Raises KafkaError, StorageError.
        """
        if step.is_ignored:
            return True
        if self._is_settling(partition):
            return False
        now_ms = self._follower.clock.wall_ms()
        if step.truncate_to != following.NONE or step.restart_at != following.NONE:
            if self._cut == CUT_MAX:
                self._retry_later(partition, 0.0)
                return False
            self._cut += 1
            self._follower.flush()
        if step.truncate_to != following.NONE:
            LOGGER.info(
                "truncating a log to what its leader has",
                extra=facts(partition=f"{partition.topic}-{partition.index}", offset=step.truncate_to),
            )
            retry = partial(self._retry, partition)
            settling = self._follower.logs.truncate_to(partition.log, step.truncate_to, now_ms, retry)
            follower_log.was_truncated(partition)
            if settling:
                self._session.pause(partition)
                return False
        if step.restart_at != following.NONE:
            settled = partial(self._restarted, partition, step, records)
            self._follower.logs.restart_at(partition.log, step.restart_at, now_ms, settled)
            follower_log.was_restarted(partition)
            self._session.pause(partition)
            return False
        self._append(partition, step, records)
        return True

    def _append(self, partition: Partition, step: Step, records: memoryview | None) -> None:
        """Carry out the rest of a step after the log has the step's length."""
        if step.append and records is not None:
            follower_log.append_fetched(partition, records, step.append, self._follower.clock.wall_ms())
        if step.high_watermark != following.NONE:
            follower_log.learn(partition, step.high_watermark, step.log_start_offset)
        self._session.note(partition)

    def _restarted(self, partition: Partition, step: Step, records: memoryview | None) -> None:
        """The log that begins again is on disk: append the records that came with that. A batch that contains the log
        start of the leader begins before it, and the leader refuses a fetch from there: it would not be sent again.
        """
        if self._session.has(partition) and not partition.closed:
            self._continue(partition)
            self._guarded(partition, self._append, partition, step, records)

    async def _look_up(self, link: Link, found: list[Fetched]) -> None:
        """Ask for the start and end of the leader's logs that do not have the requested offset. Raises LinkFailed,
        WireError.
        """
        node_id, names = self._follower.node_id, self._name_at_leader
        starts = await leader_offsets(link, node_id, found, EARLIEST, self._timeout_s, names)
        ends = await leader_offsets(link, node_id, found, LATEST, self._timeout_s, names)
        for each in found:
            key = (names(each.partition), each.partition.index)
            if key in starts and key in ends:
                self._guarded(each.partition, self._resume, each, starts[key], ends[key])
            else:
                self._retry_later(each.partition)

    def _name_at_leader(self, partition: Partition) -> str:
        """The name of the topic at the leader."""
        return partition.topic

    def _resume(self, found: Fetched, leader_start: int, leader_end: int) -> None:
        partition = found.partition
        if following.is_expected(partition.replica, found.asked, partition.log.epochs):
            step = following.out_of_range(partition.log.log_end_offset, leader_start, leader_end)
            step = following.begin_again(step, partition.log.log_start_offset, leader_start)
            self._carry_out(partition, step, None)
