"""The base of all kinds of users: they connect before the run, and perform operations in rounds when these are due."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, ClassVar

import gevent
from locust import User, task

from loadgen.figures.meter import Meter
from loadgen.net.cluster import Cluster
from loadgen.pace.pacer import Pacer
from loadgen.pace.timer import NS
from loadgen.scenario.model import UserSpec

if TYPE_CHECKING:
    from loadgen.users.context import Context, Shared


# The time in which a waiting user notices the end of the round.
LOOK_S = 0.05


class LoadUser(User):
    """A simulated client. `spec` is its entry of the scenario; `class_of` creates a class for each entry."""

    abstract = True
    spec: ClassVar[UserSpec]

    def __init__(self, environment: Any) -> None:
        super().__init__(environment)
        self.load: Context
        self.shared: Shared
        self.number = 0

    @property
    def pacer(self) -> Pacer:
        """The pacer that hands out this kind's operations."""
        return self.shared.pacer

    def meter(self, operation: str) -> Meter:
        """Return the meter of an operation: it has the kind's own name, or that name followed by the operation."""
        return self.load.book.meter(operation)

    @property
    def place(self) -> int:
        """The number of the user in its entry, over all processes."""
        return self.shared.work.share.user(self.number)

    def new_cluster(self) -> Cluster:
        """Return a client of the cluster for this user alone."""
        plan = self.load.plan
        return Cluster(plan.bootstrap, f"broker-load-{self.spec.name}-{self.place}", plan.scenario.timeout_s)

    @property
    def is_over(self) -> bool:
        """Whether the round has ended; users must not begin to wait after that."""
        return self.pacer.is_ended or time.monotonic_ns() >= self.pacer.end_ns

    def wait_ms(self, at_most: int) -> int:
        """Return how long a broker may hold a request: at most until the end of the round, and the request timeout."""
        left_ms = max(0, self.pacer.end_ns - time.monotonic_ns()) * 1000 // NS
        return min(at_most, left_ms, int(self.load.plan.scenario.timeout_s * 1000))

    def sleep(self, seconds: float) -> bool:
        """Wait for this long, or until the round ends; returns whether the round continues."""
        until_s = time.monotonic() + seconds
        while not self.is_over and (left_s := until_s - time.monotonic()) > 0:
            gevent.sleep(min(left_s, LOOK_S))
        return not self.is_over

    def on_start(self) -> None:
        """Wait for the plan of the run, take a number, and connect.

        A failure is reported to the conductor, which ends the run. The user then waits for a round that never begins:
        locust would log a traceback for each user that raises here.
        """
        self.load = self.environment.broker_load.context()
        self.shared, self.number = self.load.join(self.spec.name)
        try:
            self.connect()
        except Exception as error:
            self.load.joined(f"{self.spec.name} {self.number}: {error}")
        else:
            self.load.joined(None)

    @task
    def rounds(self) -> None:
        """Perform the operations of one round after the other."""
        number = 0
        while True:
            number = self.load.await_round(number)
            with self.load.active():
                self.drive()

    def drive(self) -> None:
        """Perform the operations of a round, until the pacer ends."""
        while (due_ns := self.pacer.take()) is not None:
            self.perform(due_ns)

    def connect(self) -> None:
        """Open what the user needs before the first operation."""

    def perform(self, due_ns: int) -> None:
        """Perform one operation, and count it. It must not raise for any answer of a cluster."""
        raise NotImplementedError

    def disconnect(self) -> None:
        """Close everything that `connect` opened."""

    def on_stop(self) -> None:
        self.disconnect()
