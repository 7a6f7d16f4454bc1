"""Scenarios for plain locust: `locust -f loadgen/locustfiles/producers.py`, with all of locust's own options.

A locustfile calls `use` with its namespace, in which locust looks for users. The scenario sets their number and the
measured time, unless `--users` or `--run-time` are given. When the measurement is over, a headless run prints our
summary and ends with our exit code.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import gevent
from locust import events
from locust.runners import LocalRunner, MasterRunner, WorkerRunner

from broker_cy.client import options as cluster_options
from broker_cy.client.clusters import select
from broker_cy.client.errors import ClientError
from broker_cy.client.program import EXIT_USAGE, print_error
from broker_cy.client.toml_file import SpecError
from loadgen.command import PROGRAM
from loadgen.net import login
from loadgen.report import text
from loadgen.run.conductor import Conductor
from loadgen.run.display import keep_fractions
from loadgen.run.worker import Worker
from loadgen.runs import Runs
from loadgen.scenario.model import Scenario
from loadgen.scenario.overrides import OVERRIDES
from loadgen.scenario.scaling import users_of, with_users
from loadgen.scenario.toml_file import read_scenario
from loadgen.session import Session
from loadgen.users.registry import classes_of
from loadgen.web.extension import extend

# Options of ours that locust does not have under the same name.
OPTIONS = ("rate", "duration", "warm-up", "topic", "partitions", "engine", "acks", "codec", "size", "verify")


def use(namespace: dict[str, Any], source: str) -> None:
    """Add the users of a scenario, given by name or file, to the namespace of a locustfile."""
    namespace.update({each.__name__: each for each in classes_of(read_scenario(source))})
    keep_fractions()
    hooks: Any = events
    hooks.init_command_line_parser.add_listener(_add_options)
    hooks.init.add_listener(lambda environment, **_: _begin(environment, source))


def _add_options(parser: Any) -> None:
    # Options of a group are not fields of locust's page, which has its own for those that apply there.
    group = parser.add_argument_group("broker-load")
    cluster_options.add_arguments(group)
    for name in OPTIONS:
        each = OVERRIDES[name]
        group.add_argument(f"--{name}", metavar=each.metavar, help=each.help.replace("%", "%%"))


def _begin(environment: Any, source: str) -> None:
    runner, options = environment.runner, environment.parsed_options
    try:
        cluster = select(cluster_options.wanted(vars(options)))
        login.choose(cluster)
    except ClientError as error:
        _refuse(runner, error)
    if isinstance(runner, WorkerRunner) and not options.processes:
        Worker(environment)
        return
    try:
        if options.host:
            raise SpecError(f"--host: {options.host!r} has no meaning (allowed: --bootstrap HOST:PORT)")
        scenario = _scenario(options, source)
        _check_classes(environment.user_classes, scenario)
    except SpecError as error:
        _refuse(runner, error)
    if isinstance(runner, LocalRunner | WorkerRunner):
        Worker(environment)
    if isinstance(runner, WorkerRunner):
        return
    workers = options.expect_workers if isinstance(runner, MasterRunner) else 1
    session = Session(Conductor(environment, scenario, cluster.bootstrap, workers), sys.argv, lambda phase: None)
    runs = Runs(session, runner.quit if options.headless else None)
    if options.headless:
        # Without it, KeyboardInterrupt would be raised in the user that runs at that moment.
        gevent.signal_handler(signal.SIGINT, runner.quit)
    if environment.web_ui is not None:
        extend(environment.web_ui, runs)
    environment.events.quitting.add_listener(lambda **_: _end(environment, runs))


def _refuse(runner: Any, error: ClientError) -> NoReturn:
    """Report wrong options, and end the process."""
    # The processes that locust forks have the same options and also get here once they are connected.
    if not isinstance(runner, WorkerRunner):
        print_error(PROGRAM, error, as_json=False)
        _end_forked()
    sys.exit(EXIT_USAGE)


def _end_forked() -> None:
    """End the processes that locust has forked: processes that are not connected yet would retry for five minutes."""
    for each in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(each), signal.SIGTERM)


def _check_classes(classes: Sequence[type[Any]], scenario: Scenario) -> None:
    """Refuse a run with other user classes than the scenario has entries: it would wait for users that never start."""
    chosen, wanted = {each.__name__ for each in classes}, {spec.class_name for spec in scenario.users}
    if chosen != wanted:
        names = ", ".join(sorted(wanted))
        raise SpecError(
            f"user classes: {', '.join(sorted(chosen))} (allowed: all of the scenario's, and no others: {names})"
        )


def _scenario(options: Any, source: str) -> Scenario:
    """Read the scenario with the options of the command line, and set locust's own options accordingly."""
    chosen = {name: getattr(options, name.replace("-", "_")) for name in OPTIONS}
    scenario = read_scenario(source, {name: value for name, value in chosen.items() if value is not None})
    if any(spec.payload.kind == "schema" for spec in scenario.users):
        raise SpecError("values of a schema are encoded before locust begins (allowed: with broker-load run or web)")
    if options.run_time:
        scenario = dataclasses.replace(scenario, seconds=float(options.run_time))
        # The run ends when its measurement does: locust's own timer begins with the first user.
        options.run_time = None
    if options.num_users is None:
        options.num_users = users_of(scenario)
    else:
        # Invalid options are rejected here, not when the run begins.
        with_users(scenario, options.num_users)
    options.spawn_rate = options.spawn_rate or options.num_users
    return scenario


def _end(environment: Any, runs: Runs) -> None:
    """Print the result of the last run, and let locust exit with its code. A run in progress is ended."""
    runs.end()
    if runs.result is not None:
        text.show(runs.result)
        environment.process_exit_code = runs.result.exit_code
    elif runs.problem is not None:
        print(f"{PROGRAM}: {runs.problem}", file=sys.stderr)
        environment.process_exit_code = runs.exit_code
