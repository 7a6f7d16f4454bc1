"""Readings of records. Each belongs to one viewer, reads while that viewer's panels subscribe, and can be stopped and
resumed.

A page opens a job, and its panels name it by its id, which other users cannot guess. Reading begins when the first
panel subscribes to the job. It stops when no panel subscribes any more, and continues if one returns within KEPT_S. The
limits of all jobs are here; those of one job are in the scan (broker_cy/console/scan.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final

from broker_cy.admin import AdminClient
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.records import Start, StartKind
from broker_cy.client.decoded import Decoder
from broker_cy.client.errors import ClientError, Failure
from broker_cy.console.listeners import Listener, Listeners, call
from broker_cy.console.scan import Row, Scan, State, Tail
from dashboard.collector.matching import Matcher
from dashboard.collector.record_request import ReadRequest
from dashboard.security.roles import Identity, Scope

_LOG = logging.getLogger(__name__)

# Open jobs: with PAGE_BYTES_MAX, they keep 512 MiB at most. If a user opens more, the user's oldest one ends.
JOBS_MAX: Final = 32
JOBS_OF_USER_MAX: Final = 6
# A job without viewers is kept this long.
KEPT_S: Final = 300.0
# The same for a job that no panel has subscribed to yet: its tab was opened in the background.
UNSEEN_S: Final = 900.0
# Bytes of the records of a page, and of a live tail.
PAGE_BYTES_MAX: Final = 16 << 20
# The newest records over all partitions that can be read at once.
NEWEST_MAX: Final = 5_000
# Viewers receive the progress at this interval.
TICK_S: Final = 0.3


class RecordJob:
    """One reading. It is a Source (broker_cy.console.listeners), which reads while it has listeners.

    `scan` or `tail` is None until the positions are known, and always if the other one is set.
    """

    def __init__(
        self, client: AdminClient, request: ReadRequest, user: str, scope: Scope, decoder: Decoder | None = None
    ) -> None:
        self.id = secrets.token_urlsafe(16)
        self.request = request
        self.user = user
        self.scope = scope
        self.scan: Scan | None = None
        self.tail: Tail | None = None
        # Why the job has ended permanently; empty until then.
        self.ended = ""
        self.is_stopped = False
        self._client = client
        self._problem = ""
        self._listeners = Listeners()
        self._matcher = Matcher(request.wanted, decoder, request.topic)
        self._is_decoded = decoder is not None
        self._task: asyncio.Task[None] | None = None
        self.is_running = False
        # Cancelled tasks, which `close` has to wait for.
        self._ending: set[asyncio.Task[None]] = set()
        self._sorted: tuple[tuple[object, ...], Sequence[Row]] = ((), ())

    @property
    def is_watched(self) -> bool:
        return bool(self._listeners)

    @property
    def error(self) -> str | None:
        """Return why the reading failed or has ended."""
        if self.ended or self._problem:
            return self.ended or self._problem
        if self.tail is not None:
            return self.tail.error or None
        return self.scan.error or None if self.scan is not None and self.scan.state is State.FAILED else None

    @property
    def age_s(self) -> float | None:
        """Return 0 once something is known: the records are as they were when they were read."""
        return None if self.scan is None and self.tail is None else 0.0

    def subscribe(self, listener: Listener) -> None:
        self._listeners.add(listener)
        is_new = self.scan is None and self.tail is None and not self._problem
        is_interrupted = self.tail is not None or (self.scan is not None and self.scan.state is State.STOPPED)
        if not self.ended and not self.is_stopped and (is_new or is_interrupted):
            self._start()
        call(listener)

    def unsubscribe(self, listener: Listener) -> None:
        self._listeners.remove(listener)
        if not self._listeners:
            self._cancel()

    def rows(self) -> Sequence[Row]:
        """Return the records that are kept: the newest first for a tail, in the order of Scan.shown for a scan."""
        if self.tail is not None:
            key: tuple[object, ...] = (self.tail.matches, self.tail.dropped)
        elif self.scan is not None:
            key = (len(self.scan.rows), self.scan.matches)
        else:
            return ()
        if self._sorted[0] != key:
            rows = list(reversed(self.tail.ring)) if self.tail is not None else self.scan.shown() if self.scan else []
            self._sorted = (key, rows)
        return self._sorted[1]

    def stop(self) -> None:
        """Stop reading, until `resume`."""
        self.is_stopped = True
        self._cancel()
        self._listeners.call()

    def resume(self) -> None:
        """Go on where the reading stopped, failed, or filled a page; the page is cleared for the next one.

        Raises ClientError if the job has ended.
        """
        if self.ended:
            raise ClientError(Failure.INVALID, self.ended)
        self.is_stopped = False
        scan = self.scan
        if scan is not None and (
            scan.state is State.PAUSED or scan.kept_bytes >= PAGE_BYTES_MAX or len(scan.rows) >= NEWEST_MAX
        ):
            scan.forget_rows()
        self._start()

    def again(self) -> None:
        """Read again from the requested position. Raises ClientError if the job has ended."""
        self._cancel()
        self.scan = self.tail = None
        self._sorted = ((), ())
        self.resume()

    def end(self, reason: str) -> None:
        """End the job permanently, and drop its records."""
        self.ended = reason
        self._cancel()
        self.scan = self.tail = None
        self._sorted = ((), ())
        self._listeners.call()

    async def close(self) -> None:
        self._cancel()
        await asyncio.gather(*self._ending, return_exceptions=True)
        await self._matcher.close()

    def _start(self) -> None:
        if self._listeners and (self._task is None or self._task.done()):
            self._problem = ""
            self.is_running = True
            self._task = asyncio.create_task(self._run(set(self._ending)))

    def _cancel(self) -> None:
        task, self._task = self._task, None
        if task is not None and not task.done():
            task.cancel()
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)

    async def _run(self, before: set[asyncio.Task[None]]) -> None:
        """Read, and call the listeners every TICK_S and at the end."""
        # A task that was cancelled may still use the scan.
        await asyncio.gather(*before, return_exceptions=True)
        reading = asyncio.create_task(self._read())
        try:
            while not reading.done():
                self._listeners.call()
                await asyncio.wait({reading}, timeout=TICK_S)
        finally:
            reading.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await reading
            await self._matcher.close()
            if self._task is None or self._task is asyncio.current_task():
                self.is_running = False
            self._listeners.call()

    async def _read(self) -> None:
        try:
            if self.scan is None and self.tail is None:
                await self._open()
            if self.tail is not None:
                await self.tail.run()
            elif self.scan is not None:
                await self.scan.run()
        except ClientError as error:
            self._problem = str(error)
        except Exception as bug:
            # This reading reports it; the others continue.
            _LOG.exception("reading %s failed", self.request.topic)
            self._problem = f"{type(bug).__name__}: {bug}"

    async def _open(self) -> None:
        """Find the positions. Raises ClientError."""
        request = self.request
        every = await self._client.records.partitions(request.topic)
        keys = partitions_of(request, every)
        start = Start.latest() if request.is_live else request.start
        spans = await self._client.records.spans(keys, start, isolation=request.isolation)
        if request.is_live:
            self.tail = Tail(
                self._client,
                {key: span.start for key, span in spans.items()},
                request.wanted,
                bytes_max=PAGE_BYTES_MAX,
                isolation=request.isolation,
                match=self._matcher.match,
                is_decoded=self._is_decoded,
            )
            return
        self.scan = Scan(
            self._client,
            spans,
            request.wanted,
            newest=min(start.value, NEWEST_MAX) if start.kind is StartKind.LAST else None,
            bytes_max=PAGE_BYTES_MAX,
            isolation=request.isolation,
            match=self._matcher.match,
            is_decoded=self._is_decoded,
        )


def partitions_of(request: ReadRequest, every: Sequence[TopicPartition]) -> list[TopicPartition]:
    """Return the requested partitions. Raises ClientError if the topic does not have one of them."""
    wanted = request.partitions
    known = {key.partition for key in every}
    absent = [number for number in wanted or () if number not in known]
    if absent:
        reason = f"{request.topic} has no partition {absent[0]}; it has 0 to {len(every) - 1}"
        raise ClientError(Failure.INVALID, reason)
    return [key for key in every if wanted is None or key.partition in wanted]


class RecordJobs:
    """The jobs of one cluster."""

    def __init__(
        self, client: AdminClient, clock: Callable[[], float] = time.monotonic, decoder: Decoder | None = None
    ) -> None:
        self._client = client
        self._decoder = decoder
        self._clock = clock
        self._jobs: OrderedDict[str, RecordJob] = OrderedDict()
        # For each job without viewers: since when, and whether it ever had one.
        self._idle: dict[str, tuple[float, bool]] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._jobs)

    def open(self, identity: Identity, request: ReadRequest) -> RecordJob:
        """Return a new job. Raises ClientError if too many are open."""
        self.sweep()
        theirs = [job for job in self._jobs.values() if job.user == identity.name]
        # Jobs without viewers are ended first, then the oldest.
        theirs.sort(key=lambda job: job.is_watched)
        for job in theirs[: max(0, len(theirs) - JOBS_OF_USER_MAX + 1)]:
            self.drop(job, f"this reading was ended, because you opened {JOBS_OF_USER_MAX} newer ones: read again")
        if len(self._jobs) >= JOBS_MAX:
            idle = next((job for job in self._jobs.values() if not job.is_watched), None)
            if idle is None:
                raise ClientError(
                    Failure.REFUSED, f"{JOBS_MAX} topics are being read, which is the limit: try again later"
                )
            self.drop(idle, "this reading was ended in favour of others: read again")
        job = RecordJob(self._client, request, identity.name, identity.scope, self._decoder)
        self._jobs[job.id] = job
        self._idle[job.id] = (self._clock(), False)
        return job

    def get(self, job_id: str, topic: str, scope: Scope) -> RecordJob:
        """Return a job of this topic that was opened with this scope. Raises ClientError."""
        job = self._jobs.get(job_id)
        if job is None or job.request.topic != topic or job.scope != scope:
            raise ClientError(Failure.INVALID, "this reading has ended: read again")
        return job

    def of(self, job_id: str, identity: Identity) -> RecordJob:
        """Return a user's own job. Raises ClientError."""
        job = self._jobs.get(job_id)
        if job is None or job.user != identity.name or job.scope != identity.scope:
            raise ClientError(Failure.INVALID, "this reading has ended: read again")
        return job

    def drop(self, job: RecordJob, reason: str) -> None:
        """End a job; panels that still show it report the reason."""
        self._jobs.pop(job.id, None)
        self._idle.pop(job.id, None)
        job.end(reason)
        task = asyncio.create_task(job.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def sweep(self) -> None:
        """Drop the jobs that have had no viewers for a while."""
        now_s = self._clock()
        for job in list(self._jobs.values()):
            since_s, was_seen = self._idle.get(job.id, (now_s, True))
            if job.is_watched:
                self._idle[job.id] = (now_s, True)
            elif now_s - since_s >= (KEPT_S if was_seen else UNSEEN_S):
                self.drop(job, "this reading was ended, because no tab showed it: read again")

    async def close(self) -> None:
        for job in list(self._jobs.values()):
            self.drop(job, "the dashboard is shutting down")
        await asyncio.gather(*self._closing, return_exceptions=True)
