"""Runs that are started by locust, from its web page or its own command line: its events call the conductor."""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

import gevent
from gevent.event import Event
from locust.runners import STATE_INIT, STATE_STOPPED, MasterRunner

from broker_cy.client.address import parse_addresses
from broker_cy.client.program import EXIT_FAILED, EXIT_USAGE, exit_code_of
from broker_cy.client.toml_file import SpecError
from loadgen.net.cluster import Refused
from loadgen.net.connection import NetError
from loadgen.report.result import Result
from loadgen.run.conductor import Conductor, Finished, RunError
from loadgen.run.failures import failure_of
from loadgen.scenario.model import Scenario
from loadgen.scenario.scaling import with_users
from loadgen.session import Session, addresses_text

logger = logging.getLogger(__name__)

# The time for workers to become ready for the next run.
READY_S = 10.0
LOOK_S = 0.05


class Runs:
    """One run after the other, each from locust's test_start on. `result` is that of the last finished run, `state` the
    current step, or the reason for a missing result. `ended` is called after each run.

    The page, and plain locust's command line, choose the number of users, the measured time and the cluster (locust's
    "host") of a run; everything else comes from the scenario.
    """

    def __init__(self, session: Session, ended: Callable[[], None] | None = None) -> None:
        self.session = session
        self.result: Result | None = None
        self.state = "no run yet"
        self.problem: str | None = None  # why the last run could not be made
        self.exit_code = EXIT_FAILED  # for that reason
        self._ended = ended
        self._greenlet: Any = None
        self._conductor = session.conductor
        self._scenario = self._conductor.scenario
        self._prepared = Event()
        session.phase = self._set_state
        self.environment = self._conductor.environment
        self.environment.host = addresses_text(self._conductor.bootstrap)
        events = self.environment.events
        events.test_start.add_listener(self._on_start)
        events.test_stopping.add_listener(self._on_stopping)

    @property
    def in_progress(self) -> bool:
        """Whether a run has begun and has no result yet."""
        return self._greenlet is not None and not self._greenlet.ready()

    def _set_state(self, text: str) -> None:
        self.state = text

    def _on_start(self, environment: Any, **_: Any) -> None:
        """Prepare a run before locust spawns its users. If that fails, locust spawns none."""
        self.end()
        self._conductor.renew()
        self.result, self.problem, self.state = None, None, "preparing"
        self.exit_code = EXIT_FAILED
        self._prepared.clear()
        self._greenlet = gevent.spawn(self._run)
        try:
            self._prepared.wait()
        except gevent.GreenletExit:
            # Locust was requested to stop, or to start again.
            self._conductor.interrupt()
            raise
        if self.problem is not None:
            raise gevent.GreenletExit

    def _on_stopping(self, environment: Any, **_: Any) -> None:
        """Let users complete their operations, and verify, before locust kills them."""
        if gevent.getcurrent() is not self._greenlet:
            self.end()

    def _run(self) -> None:
        try:
            self._choose()
            self.result = self.session.run(self._work)
            self.state = self.result.ended or "ended"
        except (RunError, NetError, Refused, SpecError) as error:
            self.problem = str(error)
            self.exit_code = EXIT_USAGE if isinstance(error, SpecError) else exit_code_of(failure_of(error))
            self.state = f"failed: {error}"
            logger.error("the run failed: %s", error)
        except Exception as error:
            # A bug: without a reason it would look as if there had been no run.
            self.problem = self.state = f"failed: {type(error).__name__}: {error}"
            raise
        finally:
            self._prepared.set()
            self._stop_users()
            self._conductor.close()
            if self._ended is not None:
                self._ended()

    def _choose(self) -> None:
        """Apply the typed number of users, time and cluster to the run."""
        options, runner = self.environment.parsed_options, self._conductor.runner
        scenario = with_users(self._scenario, runner.target_user_count)
        if options.run_time:
            scenario = dataclasses.replace(scenario, seconds=float(options.run_time))
        self._conductor.scenario = scenario
        adapt(self.environment.user_classes, scenario)
        try:
            self._conductor.bootstrap = parse_addresses(self.environment.host or "")
        except ValueError as error:
            raise SpecError(f"host: {error}") from None

    def _work(self, conductor: Conductor) -> Finished:
        conductor.prepare()
        self._prepared.set()
        self.state = "connecting users"
        return conductor.proceed(lambda: self._set_state("running"))

    def _stop_users(self) -> None:
        """Set locust's state to `stopped`, in which its page shows our tabs and workers are ready for a run."""
        runner = self._conductor.runner
        if runner.state != STATE_STOPPED:
            runner.stop()
        if isinstance(runner, MasterRunner):
            until_s = time.monotonic() + READY_S
            clients = runner.clients
            while len(clients.ready) < len(clients) - len(clients.missing) and time.monotonic() < until_s:
                gevent.sleep(LOOK_S)
            if runner.state == STATE_INIT:
                runner.update_state(STATE_STOPPED)

    def end(self) -> None:
        """End the run that is in progress, and wait for its result."""
        if self.in_progress:
            self._conductor.interrupt()
            self._greenlet.join()


def adapt(classes: Sequence[Any], scenario: Scenario) -> None:
    """Set the entries of a scenario at locust's user classes of the same names."""
    specs = {spec.name: spec for spec in scenario.users}
    for each in classes:
        each.spec = specs[each.spec.name]
        each.fixed_count = each.spec.count
