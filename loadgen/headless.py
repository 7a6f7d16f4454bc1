"""A run without a page: progress on the terminal, and the result at the end."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

from broker_cy.client.address import Address
from loadgen.command import PROGRAM
from loadgen.net.cluster import Refused
from loadgen.net.connection import NetError
from loadgen.report.progress import Progress
from loadgen.report.result import Result
from loadgen.run.conductor import InterruptedEarly, RunError
from loadgen.run.failures import failure_of
from loadgen.run.local import conduct, conductor_of, interruptible, serve
from loadgen.scenario.model import Scenario
from loadgen.session import Session


def run_headless(scenario: Scenario, bootstrap: Sequence[Address], *, quiet: bool, **workers: Any) -> Result:
    """Perform a run, and return its result. Raises ClientError if it cannot be performed, and KeyboardInterrupt if it
    was interrupted before it began.
    """
    progress = None if quiet else Progress(scenario.name, scenario.seconds)
    phase = (lambda text: None) if progress is None else progress.phase
    try:
        with (
            progress or nullcontext(),
            conductor_of(scenario, bootstrap, None if progress is None else progress.update, **workers) as conductor,
        ):
            session = Session(conductor, sys.argv, phase)
            with interruptible(session.interrupt):
                phase("creating topics and connecting users")
                return session.run(conduct)
    except (RunError, NetError, Refused) as error:
        if InterruptedEarly in (type(error), type(error.__cause__)):
            print(f"{PROGRAM}: {error}", file=sys.stderr)
            raise KeyboardInterrupt from None
        raise failure_of(error) from None


def run_worker(master: Address) -> None:
    """Work for a master until it ends the run. Raises ClientError if it does not."""
    try:
        serve(master)
    except RunError as error:
        raise failure_of(error) from None
