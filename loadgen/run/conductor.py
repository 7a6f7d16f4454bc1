"""The conductor's half of a run: topic, plan, rounds, and the figures of all workers. On a master or a local runner.

    topics -> plan to each worker -> users connect -> begin -> intervals -> finish -> ledgers

A worker that disappears is noted with the second of its last interval; the run goes on without it.
"""

from __future__ import annotations

import dataclasses
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import gevent
from gevent.event import Event
from locust.runners import STATE_MISSING, MasterRunner

from broker_cy import __version__
from loadgen.figures.totals import Totals, WorkerFigures
from loadgen.net.cluster import Cluster, Refused
from loadgen.net.connection import Address, NetError
from loadgen.run import messages
from loadgen.run.dispatch import FixedWorkers
from loadgen.run.search import Searching, Step
from loadgen.run.topics import Topics
from loadgen.scenario.model import Scenario, state_of
from loadgen.scenario.profile import RateProfile, Search
from loadgen.scenario.scaling import users_of
from loadgen.scenario.share import part_of_load, shares, worker_of
from loadgen.users.context import LEAD_S

CLIENT_ID = "broker-load"
# The time for workers to prepare and for their users to connect, in addition to the request timeout.
PREPARE_S = 60.0
LOOK_S = 0.05
REPEAT_S = 1.0
# The time for the ledgers, after all answers have arrived or are overdue.
RESULT_S = 10.0
LOCAL = "local"


class RunError(Exception):
    """The run failed, or did not reach its end; the text says why."""


class InterruptedEarly(RunError):
    """Ctrl-C arrived before the users worked."""

    def __init__(self) -> None:
        super().__init__("interrupted before the run began")


@dataclass
class _Member:
    """The conductor's view of a worker."""

    index: int
    users: int  # of all entries
    part: float  # of the load of the run, from 0 to 1
    prepared: bool = False
    problem: str | None = None
    host: str = ""
    pid: int = 0
    ready: int = 0
    result: dict[str, Any] | None = None
    lost: str | None = None

    @property
    def text(self) -> str:
        """The displayed name."""
        return f"worker {self.index}" + (f" ({self.host}, process {self.pid})" if self.host else "")


@dataclass
class Finished:
    """The outcome of a run: its figures, the users' knowledge of each record, and the start of the topics."""

    totals: Totals
    run: int
    seconds: float  # measured; in a search, those of each rate
    begun_ms: int  # when the users began, with the warm-up: ms since 1970
    starts: dict[str, dict[int, int]]  # first offset of the run, by topic and partition
    ledgers: list[list[Any]]
    incomplete: list[str]  # what limits the figures and the check, as sentences
    unchecked: str | None  # why a part of the records cannot be checked, although no worker was lost
    steps: list[Step]  # of a search
    interrupted: bool = False


class Conductor:
    """Conducts runs of a scenario; `watch` is called with the figures and the seconds since the start, each second."""

    def __init__(
        self,
        environment: Any,
        scenario: Scenario,
        bootstrap: Sequence[Address],
        workers: int = 1,
        watch: Callable[[Totals, float], None] | None = None,
    ) -> None:
        self.environment, self.runner = environment, environment.runner
        environment.dispatcher_class = partial(FixedWorkers, worker_of=self._worker_of)
        self.scenario, self.bootstrap, self.workers = scenario, tuple(bootstrap), workers
        self.totals = Totals()
        self._watch = watch
        self._members: dict[str, _Member] = {}
        self._stop = Event()
        self._topics: Topics | None = None
        self._cluster: Cluster | None = None
        self._run = 0
        # Whether the run is between the plans and `close`, and the workers that connected in that time.
        self._is_on = False
        self._late: list[str] = []
        self.environment.events.worker_report.add_listener(self._on_report)
        for name, listener in (
            (messages.PREPARED, self._on_prepared),
            (messages.READY, self._on_ready),
            (messages.INTERVAL, self._on_interval),
            (messages.RESULT, self._on_result),
        ):
            self.runner.register_message(name, listener)

    # ------------------------------------------------------------------------------------------------ messages

    def _member(self, msg: Any) -> _Member | None:
        return self._members.get(msg.node_id)

    def _on_prepared(self, environment: Any, msg: Any) -> None:
        if (member := self._member(msg)) is not None:
            member.prepared, member.problem = True, msg.data["problem"]
            member.host, member.pid = msg.data["host"], msg.data["pid"]

    def _on_ready(self, environment: Any, msg: Any) -> None:
        if (member := self._member(msg)) is not None:
            member.ready, member.problem = msg.data["ready"], msg.data["problem"]

    def _on_interval(self, environment: Any, msg: Any) -> None:
        if (member := self._member(msg)) is None:
            return
        self.totals.add(msg.node_id, msg.data)
        figures = self.totals.workers.get(msg.node_id)
        if figures is not None:
            figures.index, figures.host, figures.pid = member.index, member.host, member.pid
            figures.part = member.part

    def _on_result(self, environment: Any, msg: Any) -> None:
        if (member := self._member(msg)) is not None:
            member.result = msg.data

    def _on_report(self, client_id: str, **_: Any) -> None:
        """Inform a worker that connected during a run that it has no part, each time it reports to locust (3 s)."""
        if self._is_on and client_id not in self._members:
            if client_id not in self._late:
                self._late.append(client_id)
            self.runner.send_message(messages.LATE, {}, client_id)

    # ------------------------------------------------------------------------------------------------ the run

    def interrupt(self) -> None:
        """End the measurement now; its figures so far are kept."""
        self._stop.set()

    def renew(self) -> None:
        """Reset the interruption of the previous run."""
        self._stop.clear()

    def prepare(self) -> None:
        """Create the topics, and give each worker its plan. Locust may spawn the users then.

        Raises RunError, NetError and Refused.
        """
        self.totals = Totals()
        self._run = secrets.randbits(64)
        self.close()
        cluster = self._cluster = Cluster(self.bootstrap, CLIENT_ID, self.scenario.timeout_s)
        self._topics = Topics(cluster, self.scenario)
        self._send_plans(self._run, self._topics.create())

    def proceed(self, begun: Callable[[], None] | None = None) -> Finished:
        """Let the spawned users work; returns when all have ended. `begun` is called when they have connected. Raises
        RunError, NetError and Refused.
        """
        assert self._topics is not None
        self._await_users()
        if isinstance(self.runner, MasterRunner):
            # When a worker is lost, locust distributes users again, in steps of the spawn rate: with fewer than all in
            # the first one, it would stop users of the other workers during their requests.
            self.runner.spawn_rate = float(users_of(self.scenario))
        if begun is not None:
            begun()
        starts = self._topics.ends()
        begun_ms = time.time_ns() // 1_000_000
        steps: list[Step] = []
        if self.scenario.search is None:
            measured_s = self._measure({}, self.scenario.warm_up_s, self.scenario.seconds)
        else:
            measured_s, steps = self._find_rate(self.scenario.search)
        ledgers, incomplete, unchecked = self._collect(with_ledger=True)
        incomplete += [
            f"a worker on {_host_of(each)} connected after the run had begun, and did nothing" for each in self._late
        ]
        finished = Finished(self.totals, self._run, measured_s, begun_ms, starts, ledgers, incomplete, unchecked, steps)
        finished.interrupted = self._stop.is_set()
        return finished

    def silent(self) -> list[WorkerFigures]:
        """Return the workers that never reported figures."""
        return [
            WorkerFigures(
                member.index, member.host, member.pid, part=member.part, lost=member.lost or "reported no figures"
            )
            for name, member in self._members.items()
            if name not in self.totals.workers
        ]

    def close(self) -> None:
        """Let the workers forget the run."""
        if self._cluster is not None:
            self._send(messages.CLOSE, {})
            self._cluster.close()
            self._cluster = None
        self._is_on = False

    def clean_up(self) -> str | None:
        """Delete the topics that the run created, unless they are kept; returns why they still exist."""
        if self._topics is None:
            return None
        cluster = Cluster(self.bootstrap, CLIENT_ID, self.scenario.timeout_s)
        try:
            self._topics.delete(cluster)
        except (NetError, Refused) as error:
            return f"topics that the run created are still there: {error}"
        finally:
            cluster.close()
        return None

    def _send(self, name: str, data: dict[str, Any], worker: str | None = None) -> None:
        if isinstance(self.runner, MasterRunner):
            for each in [worker] if worker is not None else list(self._members):
                self.runner.send_message(name, data, each)
        else:
            self.runner.send_message(name, data)

    def _workers(self) -> list[str]:
        """The ids of the workers of the run; waits for the expected number."""
        if not isinstance(self.runner, MasterRunner):
            return [LOCAL]
        until_s = time.monotonic() + PREPARE_S
        clients = self.runner.clients
        while len(found := [each.id for each in clients.ready + clients.spawning + clients.running]) < self.workers:
            if self._stop.is_set():
                raise InterruptedEarly
            if time.monotonic() > until_s:
                raise RunError(f"{len(found)} of {self.workers} workers connected within {PREPARE_S:g} s")
            gevent.sleep(LOOK_S)
        return found

    def _worker_of(self, user_class: str, number: int) -> str:
        """Return the id of the worker that has this user, in agreement with its plan."""
        names = [spec.class_name for spec in self.scenario.users]
        counts = [spec.count for spec in self.scenario.users]
        index = worker_of(counts, names.index(user_class), number, len(self._members))
        return list(self._members)[index]

    def _send_plans(self, run: int, partitions: int) -> None:
        ids = self._workers()
        self._members = {each: self._member_of(index, len(ids)) for index, each in enumerate(ids)}
        self._is_on, self._late = True, []
        plan = {
            "version": __version__,
            "scenario": state_of(self.scenario),
            "bootstrap": [list(each) for each in self.bootstrap],
            "partitions": partitions,
            "run": run,
            "workers": len(ids),
        }
        sending = gevent.spawn(self._repeat_plan, plan)
        try:
            self._await("were prepared", lambda member: member.prepared)
        finally:
            sending.kill()

    def _member_of(self, index: int, workers: int) -> _Member:
        users = self.scenario.users
        of_entries = shares([spec.count for spec in users], index, workers)
        part = part_of_load(users, self.scenario.seconds, of_entries)
        return _Member(index, sum(each.users for each in of_entries), part)

    def _repeat_plan(self, plan: dict[str, Any]) -> None:
        """Send the plan until each worker has answered: a new one may not listen to our messages yet."""
        while True:
            for name, member in self._members.items():
                if not member.prepared:
                    self._send(messages.PLAN, {**plan, "worker": member.index}, name)
            gevent.sleep(REPEAT_S)

    def _await_users(self) -> None:
        """Wait until all users have connected."""
        most = 0
        patience_s = PREPARE_S + self.scenario.timeout_s
        until_s = time.monotonic() + patience_s
        while True:
            # A run continues without a lost worker, now and later.
            there = [member for member in self._members.values() if not member.lost]
            ready, wanted = sum(member.ready for member in there), sum(member.users for member in there)
            if ready >= wanted and there:
                break
            # The wait is bounded from the last spawned user on, because locust's page may spawn one a second.
            if ready > most:
                most, until_s = ready, time.monotonic() + patience_s
            self._check_problems()
            if self._stop.is_set():
                raise InterruptedEarly
            if time.monotonic() > until_s:
                raise RunError(f"{ready} of {wanted} users have connected")
            gevent.sleep(LOOK_S)

    def _await(self, what: str, done: Callable[[_Member], bool], timeout_s: float = PREPARE_S) -> None:
        until_s = time.monotonic() + timeout_s
        while not all(done(member) or member.lost for member in self._members.values()):
            self._check_problems()
            if time.monotonic() > until_s:
                count = sum(map(done, self._members.values()))
                raise RunError(f"{count} of {len(self._members)} workers {what} within {timeout_s:g} s")
            gevent.sleep(LOOK_S)
        self._check_problems()

    def _check_problems(self) -> None:
        self._note_lost()
        for name, member in self._members.items():
            if member.problem is not None:
                raise RunError(member.problem if name == LOCAL else f"{member.text}: {member.problem}")
        if all(member.lost for member in self._members.values()):
            raise RunError("all workers have disappeared")

    def _note_lost(self) -> None:
        """Note which workers sent no heartbeat or have left."""
        if not isinstance(self.runner, MasterRunner):
            return
        for name, member in self._members.items():
            client = self.runner.clients.get(name)
            figures = self.totals.workers.get(name)
            if member.lost is None and (client is None or client.state == STATE_MISSING):
                second = figures.last_second if figures is not None else 0
                member.lost = f"disappeared; its last figures are of second {second}"
            if figures is not None:
                # In a search, each step has its own figures.
                figures.lost = member.lost

    def _measure(self, rates: dict[str, RateProfile], warm_up_s: float, seconds: float) -> float:
        """Let users perform operations for a round; returns the measured time."""
        states = {name: dataclasses.asdict(profile) for name, profile in rates.items()}
        self._send(messages.BEGIN, {"rates": states, "warm_up_s": warm_up_s, "seconds": seconds})
        begun_s = time.monotonic() + LEAD_S + warm_up_s
        until_s, next_s = begun_s + seconds, 0.0
        while (now_s := time.monotonic()) < until_s and not self._stop.is_set():
            self._note_lost()
            if all(member.lost for member in self._members.values()):
                break
            if self._watch is not None and now_s >= next_s:
                self._watch(self.totals, now_s - begun_s)
                next_s = now_s + 1
            self._stop.wait(min(LOOK_S * 4, max(0.0, until_s - now_s)))
        return max(0.0, min(seconds, time.monotonic() - begun_s))

    def _find_rate(self, search: Search) -> tuple[float, list[Step]]:
        """Try one rate after the other. Afterwards the figures are those of the best good rate, or else of the first
        rate.

        Returns the measured time of each rate, and the steps.
        """
        searching = Searching(search)
        (rated,) = (spec for spec in self.scenario.users if spec.rate is not None)
        kept, warm_up_s = self.totals, self.scenario.warm_up_s
        measured_s = search.hold_s
        while (rate := searching.rate) is not None and not self._stop.is_set():
            self.totals = Totals()
            measured_s = self._measure({rated.name: RateProfile.constant(rate)}, warm_up_s, search.hold_s)
            self._collect(with_ledger=False)
            # The figures of an incomplete step say nothing about its rate.
            if self._stop.is_set() or any(member.lost for member in self._members.values()):
                break
            step = searching.take(self.totals, measured_s)
            if step.is_good or len(searching.steps) == 1:
                kept = self.totals
        if searching.steps:
            self.totals, measured_s = kept, search.hold_s
            self._note_lost()
        return measured_s, searching.steps

    def _collect(self, *, with_ledger: bool) -> tuple[list[list[Any]], list[str], str | None]:
        """End the round. Returns the ledgers; the workers that did not end it, with the reasons; and why ledgers of
        remaining workers are missing.
        """
        timeout_s = self.scenario.timeout_s
        for member in self._members.values():
            member.result = None
        self._send(messages.FINISH, {"timeout_s": timeout_s, "now": self._stop.is_set(), "with_ledger": with_ledger})
        until_s = time.monotonic() + timeout_s + RESULT_S
        while any(member.result is None and not member.lost for member in self._members.values()):
            self._note_lost()
            if time.monotonic() > until_s:
                break
            gevent.sleep(LOOK_S)
        ledgers: list[list[Any]] = []
        incomplete: list[str] = []
        missing = None
        # Users of the engine raw note acknowledgements when they end.
        is_noted_late = any(spec.engine == "raw" for spec in self.scenario.users)
        for member in self._members.values():
            if member.result is None:
                unchecked = "; its records were not checked" if with_ledger and self.scenario.verify != "off" else ""
                why = f"{member.text}: {member.lost or 'sent no result'}"
                incomplete.append(f"{why}{unchecked}")
                missing = missing or (None if member.lost else why)
                continue
            ledgers += member.result["ledger"]
            if not member.result["complete"]:
                why = f"{member.text}: some users did not end within {timeout_s:g} s"
                incomplete.append(why)
                missing = missing or (why if is_noted_late else None)
        return ledgers, incomplete, missing


def _host_of(client_id: str) -> str:
    """Return the host name that locust puts before the id of a worker."""
    return client_id.rpartition("_")[0]
