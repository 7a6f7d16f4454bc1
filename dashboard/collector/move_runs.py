"""Reassignments that users of the dashboard started. They take minutes to hours and continue after the tab is closed.

A run ends when it is done, when it is stopped, or when the dashboard exits. In the last two cases the current moves are
cancelled and the throttle is removed (broker_cy/admin/move_run.py), because the dashboard could not remove it later.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Final

from broker_cy.admin import AdminClient
from broker_cy.admin.move_progress import MoveProgress
from broker_cy.client.errors import ClientError, Failure
from broker_cy.console.acts.pace import LongAct
from broker_cy.console.acts.plan import Failed, Report
from broker_cy.console.listeners import Listener, Listeners, call
from broker_cy.console.session import now_ms

_LOG = logging.getLogger(__name__)

# Runs that are shown; the oldest finished ones are dropped.
KEPT_MAX: Final = 20
STOPPED: Final = "stopped: completed reassignments stay, and all others were cancelled"

Client = AbstractAsyncContextManager[AdminClient]
Ended = Callable[[str], None]


@dataclass(slots=True, eq=False)
class Run:
    """One run. `report` is set when it has ended; `client` opens the client of the user who started it."""

    title: str
    user: str
    act: LongAct
    client: Client
    ended: Ended
    id: str = field(default_factory=lambda: secrets.token_urlsafe(8))
    began_ms: int = field(default_factory=now_ms)
    ended_ms: int | None = None
    progress: MoveProgress | None = None
    report: Report | None = None
    is_stopping: bool = False
    task: asyncio.Task[None] | None = None

    @property
    def is_over(self) -> bool:
        return self.report is not None


class MoveRuns:
    """The runs of one cluster, one at a time. It is a Source (broker_cy.console.listeners)."""

    error: str | None = None
    age_s: float | None = 0.0

    def __init__(self) -> None:
        self._runs: deque[Run] = deque()
        self._listeners = Listeners()

    @property
    def runs(self) -> Sequence[Run]:
        """The newest first."""
        return tuple(reversed(self._runs))

    def subscribe(self, listener: Listener) -> None:
        self._listeners.add(listener)
        call(listener)

    def unsubscribe(self, listener: Listener) -> None:
        self._listeners.remove(listener)

    def start(self, run: Run) -> None:
        """Start a run. Raises ClientError while another one is under way: each was planned as if it were alone."""
        busy = next((each for each in self._runs if not each.is_over), None)
        if busy is not None:
            raise ClientError(
                Failure.REFUSED,
                f"{busy.user} has a reassignment under way ({busy.title}): wait, or stop it",
            )
        while len(self._runs) >= KEPT_MAX:
            self._runs.popleft()
        self._runs.append(run)
        run.task = asyncio.create_task(self._follow(run))
        self._listeners.call()

    def of(self, run_id: str) -> Run:
        """Raises ClientError if no run has this id."""
        found = next((each for each in self._runs if each.id == run_id), None)
        if found is None:
            raise ClientError(Failure.INVALID, "these reassignments are not known any more")
        return found

    async def stop(self, run: Run) -> None:
        """Stop a run, and wait until its current moves are undone."""
        if run.task is not None and not run.is_over:
            run.is_stopping = True
            run.task.cancel()
            self._listeners.call()
            await asyncio.gather(run.task, return_exceptions=True)
            if not run.is_over:
                # It was cancelled before its first step, which would have reported that.
                self._end(run, Report(STOPPED))

    async def close(self) -> None:
        await asyncio.gather(*(self.stop(run) for run in self._runs))

    async def _follow(self, run: Run) -> None:
        def note(progress: MoveProgress) -> None:
            run.progress = progress
            self._listeners.call()

        report = Report(STOPPED)
        try:
            async with run.client as client:
                report = await run.act.follow(client, note)
        except ClientError as error:
            report = Report("", failed=(Failed(run.title, error),))
        except Exception as bug:
            # The run reports it; the rest of the dashboard continues.
            _LOG.exception("%s failed", run.title)
            unknown = ClientError(Failure.MALFORMED, f"{type(bug).__name__}: {bug}")
            report = Report("", failed=(Failed(run.title, unknown),))
        finally:
            self._end(run, report)

    def _end(self, run: Run, report: Report) -> None:
        run.report, run.ended_ms = report, now_ms()
        run.ended(report.problem or report.said)
        self._listeners.call()
