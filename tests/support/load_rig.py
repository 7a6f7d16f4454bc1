"""Runs producing users of the load generator in this process: an engine, its users, rounds, and the verification."""

from __future__ import annotations

import time
from typing import Any

import gevent

from bench.wire import protocol
from loadgen.engines.base import Engine, Work
from loadgen.engines.registry import engine_of
from loadgen.figures.book import Book
from loadgen.figures.totals import Operation
from loadgen.pace.pacer import Pacer
from loadgen.pace.timer import NS
from loadgen.scenario.model import Scenario, TopicSpec, UserSpec
from loadgen.scenario.options import defaults_of
from loadgen.scenario.profile import RateProfile
from loadgen.scenario.share import Share
from loadgen.verify.check import ends_of, verify
from loadgen.verify.ledger import Ledger
from loadgen.verify.verification import Verification

RUN = 0xB10C
NAME = "users"


class Rig:
    """One kind of producing users. `spec` has the fields of UserSpec; the topic is created."""

    def __init__(
        self,
        address: tuple[str, int],
        topic: str,
        *,
        partitions: int = 2,
        users: int = 1,
        is_verified: bool = True,
        timeout_s: float = 30.0,
        **spec: Any,
    ) -> None:
        self.address, self.users = address, users
        self.rate: RateProfile | None = spec.pop("rate", None)
        with protocol.Client(address) as client:
            client.create_topic(topic, partitions, {})
        self.starts = ends_of((address,), [topic])
        self.topic = topic
        options = {**defaults_of("producer", spec.get("engine", "gevent")), **spec.pop("options", {})}
        of_users = UserSpec("producer", NAME, users, self.rate, options=options, **spec)
        self.scenario = Scenario("test", topic=TopicSpec(topic, partitions), users=(of_users,), timeout_s=timeout_s)
        self.book = Book()
        self.ledger = Ledger() if is_verified else None
        self.pacer = Pacer()
        self.work = Work(
            (address,), self.scenario, of_users, partitions, RUN, 0, Share(count=users), self.pacer,
            self.book.meter(NAME), self.book, self.ledger,
        )  # fmt: skip
        self.engine: Engine = engine_of(self.work)
        self.engine.prepare()
        for user in range(users):
            self.engine.connect(user)

    def run(self, seconds: float, settle_s: float = 30.0) -> Operation:
        """Run one round; returns its figures."""
        start_ns = time.monotonic_ns() + NS // 20
        self.pacer.begin(self.rate, start_ns, start_ns + int(seconds * NS))
        gevent.sleep(0.05)
        greenlets = [gevent.spawn(self.engine.produce, user) for user in range(self.users)]
        gevent.joinall(greenlets, raise_error=True)
        self.pacer.end()
        self.engine.settle(settle_s)
        figures = Operation()
        if (state := self.work.meter.take()) is not None:
            figures.add(state)
        return figures

    def verify(self) -> Verification:
        """Read back all rounds so far."""
        assert self.ledger is not None
        return verify((self.address,), RUN, self.starts, self.ledger.state())

    def close(self) -> None:
        self.engine.close()
        self.pacer.close()
