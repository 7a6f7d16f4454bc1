"""`broker-load web`: locust's own page starts and stops runs; our tabs show the figures behind the verdict."""

from __future__ import annotations

import json
import signal
import socket
import sys
import time
from collections.abc import Sequence
from typing import Any

import gevent
from gevent.event import Event
from locust.runners import MasterRunner
from locust.stats import stats_history

from broker_cy.client.address import Address
from loadgen.run.conductor import PREPARE_S, RunError
from loadgen.run.failures import failure_of
from loadgen.run.local import conductor_of
from loadgen.runs import Runs
from loadgen.scenario.model import Scenario
from loadgen.session import Session
from loadgen.web.extension import extend
from loadgen.web.guard import own_names

LOOK_S = 0.05


def serve(
    scenario: Scenario, bootstrap: Sequence[Address], listen: Address, *, processes: int = 1, as_json: bool = False
) -> int:
    """Serve the page until SIGINT or SIGTERM; returns the exit code of the last run, 0 without a run. Raises
    ClientError if the page cannot be served.
    """
    command = list(sys.argv)
    # Locust's page reads the command line, but does not know our options.
    sys.argv[1:] = []
    try:
        with conductor_of(scenario, bootstrap, processes=processes) as conductor:
            runs = Runs(Session(conductor, command, lambda text: None))
            ui = conductor.environment.create_web_ui(listen.host, listen.port, delayed_start=True)
            extend(ui, runs, own_names(listen.host))
            _start(ui, listen)
            history = gevent.spawn(stats_history, conductor.runner)
            try:
                _await_workers(conductor.runner, processes)
                url = f"http://{listen}"
                print(json.dumps({"url": url}) if as_json else f"broker-load: {url} (Ctrl-C ends it)", flush=True)
                _await_signal()
                runs.end()
            finally:
                history.kill()
                ui.stop()
    except RunError as error:
        raise failure_of(error) from None
    return 0 if runs.result is None else runs.result.exit_code


def _start(ui: Any, listen: Address) -> None:
    """Serve the page. Raises RunError if the port is in use, which locust would only log."""
    family = socket.AF_INET6 if ":" in listen.host else socket.AF_INET
    try:
        # Locust binds the port in a separate greenlet, which would end with a traceback.
        socket.create_server(listen, family=family).close()
    except OSError as error:
        raise RunError(f"--listen: {listen}: {error.strerror or error}") from None
    ui.start()


def _await_workers(runner: Any, processes: int) -> None:
    until_s = time.monotonic() + PREPARE_S
    while isinstance(runner, MasterRunner) and len(runner.clients) < processes:
        if time.monotonic() > until_s:
            raise RunError(f"{len(runner.clients)} of {processes} workers connected within {PREPARE_S:g} s")
        gevent.sleep(LOOK_S)


def _await_signal() -> None:
    ended = Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        gevent.signal_handler(number, ended.set)
    ended.wait()
