"""One run from beginning to end: the users work, their records are read back, and the result is judged.

Used by every way to start a run: the command line, locust's web page, and plain locust.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import gevent

from broker_cy.client.address import Address
from loadgen.figures.totals import WorkerFigures
from loadgen.net.cluster import Refused
from loadgen.net.connection import NetError
from loadgen.report import build
from loadgen.report.result import Event, Result, Verification
from loadgen.run.conductor import Conductor, Finished, RunError
from loadgen.run.events import ClusterEvents
from loadgen.scenario import thresholds
from loadgen.scenario.model import Scenario
from loadgen.verify import check
from loadgen.verify.source import SourceError

Phase = Callable[[str], None]


class Session:
    """The runs of one scenario. `phase` is called with the current step before and after the users work."""

    def __init__(self, conductor: Conductor, command: Sequence[str], phase: Phase) -> None:
        self.conductor, self.phase, self._command = conductor, phase, tuple(command)
        self._reader: gevent.Greenlet[[Finished], Verification] | None = None

    @property
    def scenario(self) -> Scenario:
        return self.conductor.scenario

    def interrupt(self) -> None:
        """End the measurement now or, once it has ended, the verification. The figures are kept."""
        self.conductor.interrupt()
        if self._reader is not None:
            self._reader.kill(block=False)

    def run(self, work: Callable[[Conductor], Finished]) -> Result:
        """Perform a run: `work` lets the users work. The topics that it created are deleted afterwards.

        Raises RunError, NetError and Refused if it fails.
        """
        events = ClusterEvents(self.conductor.bootstrap, self.scenario.timeout_s)
        try:
            finished = work(self.conductor)
            verification = self._verify(finished)
            happened = events.since(finished.begun_ms, self.scenario.warm_up_s)
        except BaseException as error:
            if (left := self.conductor.clean_up()) is not None and isinstance(error, RunError | NetError | Refused):
                raise RunError(f"{error}; {left}") from error
            raise
        # If the cluster is unavailable, the topics remain there, and the figures must not be lost.
        if (left := self.conductor.clean_up()) is not None:
            finished.incomplete.append(left)
        return self._result(finished, verification, [Event(**each) for each in happened])

    def _verify(self, finished: Finished) -> Verification | None:
        if self.scenario.verify == "off":
            return None
        if finished.unchecked is not None:
            return Verification(problem=finished.unchecked)
        self.phase("reading back what was written")
        self._reader = gevent.spawn(self._read_back, finished)
        try:
            found = self._reader.get()
        finally:
            self._reader = None
        # `get` returns GreenletExit if the greenlet was killed.
        return Verification(problem="interrupted") if isinstance(found, gevent.GreenletExit) else found

    def _read_back(self, finished: Finished) -> Verification:
        try:
            found = check.verify(
                self.conductor.bootstrap,
                finished.run,
                finished.starts,
                finished.ledgers,
                timeout_s=self.scenario.timeout_s,
            )
        except SourceError as error:
            return Verification(problem=str(error))
        return Verification.of(found.to_dict())

    def _result(self, finished: Finished, verification: Verification | None, events: list[Event]) -> Result:
        scenario = self.scenario
        result = build.build(
            scenario,
            finished.totals,
            seconds=finished.seconds,
            bootstrap=addresses_text(self.conductor.bootstrap),
            command=self._command,
            workers=self._workers(finished),
            verification=verification,
            events=events,
            steps=finished.steps,
            notes=finished.incomplete,
            ended=build.interrupted(finished.seconds, scenario) if finished.interrupted else None,
        )
        return result.judged(thresholds.judge(scenario.thresholds, result))

    def _workers(self, finished: Finished) -> list[WorkerFigures]:
        """All workers of the run, including those that never reported."""
        return list(finished.totals.workers.values()) + self.conductor.silent()


def addresses_text(addresses: Sequence[tuple[str, int]]) -> str:
    """Return addresses as HOST:PORT texts."""
    return ",".join(str(Address(*each)) for each in addresses)
