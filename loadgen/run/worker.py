"""The worker's half of a run: prepares users' shared state, reports each second, and sends the ledger at the end."""

from __future__ import annotations

import gc
import os
import socket
import sys
import time
from typing import Any

import gevent
from locust.runners import WorkerRunner

from bench.measuring.histogram import Histogram
from broker_cy import __version__
from loadgen.figures.book import Book
from loadgen.pace.timer import NS, Timer
from loadgen.run import messages
from loadgen.run.display import show
from loadgen.scenario.model import scenario_of
from loadgen.scenario.profile import RateProfile
from loadgen.users.context import Context, Lobby, Plan
from loadgen.users.registry import classes_of

READY_EVERY_S = 0.1
# The interval of measurements of the hub's lag: the delay of a timer.
LAG_EVERY_NS = 10_000_000


class Worker:
    """Registered on a local runner or on a worker's. Users find the context of the run in `environment.broker_load`."""

    def __init__(self, environment: Any) -> None:
        self.environment, self.runner = environment, environment.runner
        self._lobby = environment.broker_load = Lobby()
        self._context: Context | None = None
        self._run: int | None = None  # whose plan came
        self._is_late = False
        self._second = 0
        self._reporter: Any = None
        self._lag: HubLag | None = None
        for name, listener in (
            (messages.PLAN, self._plan),
            (messages.BEGIN, self._begin),
            (messages.FINISH, self._finish),
            (messages.CLOSE, self._close),
            (messages.LATE, self._late),
        ):
            self.runner.register_message(name, self._spawned(listener))

    def _spawned(self, listener: Any) -> Any:
        """The runner must continue to read messages while a listener works."""

        def listen(environment: Any, msg: Any) -> None:
            gevent.spawn(listener, msg.data)

        return listen

    def _send(self, name: str, data: dict[str, Any]) -> None:
        self.runner.send_message(name, data)

    def _plan(self, data: dict[str, Any]) -> None:
        if data["run"] == self._run:
            return  # it is repeated until we have answered
        self._run, self._is_late = data["run"], False
        self._close()
        problem = None
        if data["version"] != __version__:
            problem = f"this worker is of version {__version__}, the master of {data['version']}"
        else:
            try:
                self._prepare(data)
            except Exception as error:  # the conductor must get every error
                problem = str(error) or type(error).__name__
        self._send(messages.PREPARED, {"problem": problem, "host": socket.gethostname(), "pid": os.getpid()})
        if problem is None:
            self._reporter = gevent.spawn(self._report_ready)

    def _prepare(self, data: dict[str, Any]) -> None:
        scenario = scenario_of(data["scenario"])
        plan = Plan(
            scenario,
            tuple((host, port) for host, port in data["bootstrap"]),
            data["partitions"],
            data["run"],
            data["worker"],
            data["workers"],
        )
        self._context = Context(plan)
        if isinstance(self.runner, WorkerRunner):
            self.environment.user_classes = classes_of(scenario)
        self._lobby.open(self._context)

    def _report_ready(self) -> None:
        context = self._context
        assert context is not None
        while True:
            self._send(messages.READY, {"ready": context.ready, "problem": context.problem})
            gevent.sleep(READY_EVERY_S)

    def _begin(self, data: dict[str, Any]) -> None:
        context = self._context
        if context is None:
            return
        if self._reporter is not None:
            self._reporter.kill()
        # Connections and templates live as long as the run, so garbage collections need not traverse them.
        gc.collect()
        gc.freeze()
        rates = {name: RateProfile.of_state(state) for name, state in data["rates"].items()}
        start_ns = context.begin(rates, data["warm_up_s"], data["seconds"])
        if self._lag is None:
            self._lag = HubLag(context.book)
        self._reporter = gevent.spawn(self._report, context, start_ns)

    def _report(self, context: Context, start_ns: int) -> None:
        """Send an interval at the end of each second; those of the warm-up have negative numbers."""
        self._second = (time.monotonic_ns() - start_ns) // NS
        while True:
            gevent.sleep(max(0.0, (start_ns + (self._second + 1) * NS - time.monotonic_ns()) / NS))
            self._send_interval(context, self._second)
            self._second = max(self._second + 1, (time.monotonic_ns() - start_ns) // NS)

    def _send_interval(self, context: Context, second: int) -> None:
        interval = context.book.take(second)
        show(self.environment.stats, interval)
        self._send(messages.INTERVAL, interval)

    def _finish(self, data: dict[str, Any]) -> None:
        context = self._context
        if context is None:
            return
        complete = context.finish(data["timeout_s"], now=data["now"])
        if self._reporter is not None:
            self._reporter.kill()
            self._reporter = None
            self._send_interval(context, max(0, self._second))
        ledger = context.ledger_state() if data["with_ledger"] else []
        self._send(messages.RESULT, {"ledger": ledger, "complete": complete})

    def _close(self, data: dict[str, Any] | None = None) -> None:
        if self._reporter is not None:
            self._reporter.kill()
            self._reporter = None
        if self._lag is not None:
            self._lag.close()
            self._lag = None
        if self._context is not None:
            self._context.close()
            self._context = None
            gc.unfreeze()
        self._lobby.shut()

    def _late(self, data: dict[str, Any]) -> None:
        if not self._is_late:
            print("broker-load: the run has begun without this worker", file=sys.stderr, flush=True)
        self._is_late = True


class HubLag:
    """Measures the delay of callbacks of gevent's hub: time that users of this process wait without a cause in the
    cluster.
    """

    def __init__(self, book: Book) -> None:
        self._book = book
        self._timer = Timer(self._ring)
        self._due_ns = time.monotonic_ns() + LAG_EVERY_NS
        self._timer.set(self._due_ns)

    def _ring(self) -> None:
        now_ns = time.monotonic_ns()
        lag: Histogram = self._book.hub_lag
        lag.add(now_ns - self._due_ns)
        self._due_ns = now_ns + LAG_EVERY_NS
        self._timer.set(self._due_ns)

    def close(self) -> None:
        """Stop measuring."""
        self._timer.close()
