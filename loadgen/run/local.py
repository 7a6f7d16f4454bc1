"""One run from the command line: in this process, or as the master of workers."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import gevent
from locust import runners
from locust.env import Environment
from locust.exception import RPCError
from locust.runners import MasterRunner

from broker_cy.launch.processes import end_within, start_child
from loadgen.figures.totals import Totals
from loadgen.net.connection import Address
from loadgen.run.conductor import Conductor, Finished, RunError
from loadgen.run.display import keep_fractions
from loadgen.run.worker import Worker
from loadgen.scenario.model import Scenario
from loadgen.scenario.scaling import users_of
from loadgen.users.registry import classes_of

# Locust warns above 100 a second. Users connect themselves, and the run begins when all are connected.
SPAWN_RATE = 100_000
LOOPBACK = "127.0.0.1"
STOP_S = 10.0
# A worker ends when its master was silent for this long; with locust's own limit a worker would continue for 60 s.
SILENT_S = 15


def environment_of(scenario: Scenario | None) -> Any:
    """Return a locust environment for the users of a scenario."""
    keep_fractions()
    # Locust warns about spawn rates, and logs each change of state. The run reports the relevant parts.
    logging.getLogger("locust").setLevel(logging.CRITICAL)
    classes: list[Any] = [] if scenario is None else classes_of(scenario)
    # The options that locust's runners and page read: otherwise a worker would read locust's own configuration files.
    count = 0 if scenario is None else users_of(scenario)
    options = Namespace(
        num_users=count,
        spawn_rate=count,
        run_time=None,
        headless=False,
        enable_rebalancing=False,
        stats_history_enabled=False,
        web_base_path="",
    )
    name = None if scenario is None else scenario.name  # the title of the page
    return Environment(user_classes=classes, parsed_options=options, locustfile=name)


@contextmanager
def conductor_of(
    scenario: Scenario,
    bootstrap: Sequence[Address],
    watch: Callable[[Totals, float], None] | None = None,
    *,
    processes: int = 1,
    listen: Address | None = None,
    workers: int = 0,
) -> Iterator[Conductor]:
    """Return a conductor: of this process alone, of several `processes` that it starts, or of `workers` that connect to
    `listen`. Raises RunError if it cannot listen there.
    """
    environment = environment_of(scenario)
    children: list[subprocess.Popen[bytes]] = []
    started = 0 if workers or processes == 1 else processes
    if started or workers:
        host, port = listen or (LOOPBACK, 0)
        runner = _master_runner(environment, host, port)
        conductor = Conductor(environment, scenario, bootstrap, started + workers, watch)
        command = [sys.executable, "-m", "loadgen", "worker", "--master", f"{host}:{runner.server.port}"]
        # Ctrl-C on a terminal is for the conductor, which ends them.
        children = [start_child(command) for _ in range(started)]
    else:
        runner = environment.create_local_runner()
        Worker(environment)
        conductor = Conductor(environment, scenario, bootstrap, 1, watch)
    try:
        yield conductor
    finally:
        runner.quit()
        for each in children:
            end_within(each, STOP_S)


def _master_runner(environment: Any, host: str, port: int) -> Any:
    try:
        return environment.create_master_runner(host, port)
    except (SystemExit, RPCError) as error:
        # Locust exits if the port is in use and it recognizes the text of that error.
        why = "Address already in use" if isinstance(error, SystemExit) else str(error)
        raise RunError(f"--listen: {host}:{port}: {why}") from None


def conduct(conductor: Conductor) -> Finished:
    """Make the run."""
    runner = conductor.runner
    count = users_of(conductor.scenario)
    try:
        conductor.prepare()
        runner.start(count, SPAWN_RATE)
        return conductor.proceed()
    finally:
        if not isinstance(runner, MasterRunner):
            runner.stop()
        conductor.close()


@contextmanager
def interruptible(interrupt: Callable[[], None]) -> Iterator[None]:
    """Let Ctrl-C and SIGTERM call `interrupt`, each time. Without this they would end the process, and the topics of
    the run would remain.
    """
    handlers = [gevent.signal_handler(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)]
    try:
        yield
    finally:
        for each in handlers:
            each.cancel()


def serve(master: Address) -> None:
    """Work for a master until it ends. Raises RunError if the master cannot be reached, or is silent for SILENT_S."""
    environment = environment_of(None)
    module: Any = runners
    module.MASTER_HEARTBEAT_TIMEOUT = SILENT_S
    try:
        runner = environment.create_worker_runner(*master)
    except ConnectionError:
        wait_s = runners.CONNECT_TIMEOUT * runners.CONNECT_RETRY_COUNT
        raise RunError(f"--master: nothing answered at {master} within {wait_s} s") from None
    Worker(environment)
    for number in (signal.SIGINT, signal.SIGTERM):
        gevent.signal_handler(number, runner.quit)
    runner.greenlet.join()
    if runner.last_heartbeat_timestamp and time.time() - runner.last_heartbeat_timestamp > SILENT_S:
        raise RunError(f"the master {master} was silent for {SILENT_S} s")
