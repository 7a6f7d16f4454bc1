"""The conductor with workers that consist only of messages; in separate processes, because locust patches the
process.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.loadgen.run.kit import ENDS_S, ROOT

HEAD = """
from types import SimpleNamespace
from loadgen.run import conductor as conductors
from loadgen.run.conductor import Conductor, RunError
from bench.measuring.histogram import Histogram
from locust.runners import MasterRunner, WorkerNode
from gevent.event import Event
from loadgen.figures.totals import Totals
from loadgen.report import build
from loadgen.scenario.model import Scenario, UserSpec
from loadgen.scenario.profile import RateProfile, Search

class Runner(MasterRunner):
    def __init__(self):
        self.clients = {name: WorkerNode(name) for name in ("w0", "w1")}

def interval(second, count, latency_ns=1_000_000, unsent=None):
    latency = Histogram()
    for _ in range(count):
        latency.add(latency_ns)
    produced = {"requests": count, "records": count, "bytes": 0, "errors": {}, "latency": latency.state(),
                "service": latency.state()}
    return {"second": second, "seconds": 1.0, "cpu_s": 0.1, "operations": {"Produce": produced},
            "lateness": Histogram().state(), "queued": 0, "unsent": unsent or {}, "hub_lag": Histogram().state(),
            "counts": {}}

search = Search("Produce", 99, 100.0, 100, 1000, 1.5, 1.0, 0.05)
users = (UserSpec("producer", "p", 4, rate=RateProfile.constant(100)),)
scenario = Scenario("s", users=users, search=search, seconds=10, verify="off", timeout_s=0.5)

def made():
    it = Conductor.__new__(Conductor)
    it.runner, it.scenario, it._stop, it.totals, it._late = Runner(), scenario, Event(), Totals(), []
    it._members = {name: it._member_of(index, 2) for index, name in enumerate(("w0", "w1"))}
    it._send = lambda *arguments, **named: None
    return it

def report(it, names, *arguments):
    for name in names:
        it._on_interval(None, SimpleNamespace(node_id=name, data=interval(*arguments)))
"""

LOST_IN_A_SEARCH = """
it, steps = made(), []
def measure(rates, warm_up_s, seconds):
    rate = rates["p"].highest
    steps.append(rate)
    names = ["w0", "w1"]
    if len(steps) >= 3:
        it.runner.clients.pop("w1", None)
        names = ["w0"]
    it._note_lost()
    report(it, names, 0, int(rate / 2))
    return 1.0
it._measure, it._collect = measure, lambda **named: ([], [], None)
seconds, judged = it._find_rate(search)
workers = [*it.totals.workers.values(), *it.silent()]
result = build.build(scenario, it.totals, seconds=seconds, bootstrap="", command=["x"], origin={}, workers=workers,
                     steps=judged)
print(len(steps), len(judged), result.best.rate, [each.lost is not None for each in result.workers])
"""

INTERRUPTED_SEARCH = """
it, steps = made(), []
def measure(rates, warm_up_s, seconds):
    steps.append(rates["p"].highest)
    if len(steps) == 3:
        it._stop.set()
        return 0.3
    report(it, ["w0", "w1"], 0, int(steps[-1] / 2))
    return 1.0
def collect(**named):
    if it._stop.is_set():
        report(it, ["w0", "w1"], 0, 70, 3_000_000_000, {"p": 40})
    return [], [], None
it._measure, it._collect = measure, collect
it._find_rate(search)
print(it.totals.operations["Produce"].requests, it.totals.unsent)
"""

LOST_BEFORE_USERS_CONNECT = """
it = made()
it._members["w0"].prepared, it._members["w0"].ready = True, 2
del it.runner.clients["w1"]
it._await("were prepared", lambda member: member.prepared)
it._await_users()
print(it._members["w1"].lost is not None)
it._members["w0"].ready = 1
conductors.PREPARE_S = 0.1
try:
    it._await_users()
except RunError as error:
    print(error)
"""

WITHOUT_A_RESULT = """
conductors.RESULT_S = 0.1
it = made()
it._members["w0"].result = {"ledger": [], "complete": True}
def finish(name, data, worker=None):
    it._members["w0"].result = {"ledger": [["x"]], "complete": True}
it._send = finish
print(it._collect(with_ledger=True)[::2])
"""


@pytest.mark.parametrize(
    ("program", "printed"),
    [
        # If this fails, a worker that is lost in a search makes its rates too low without a message.
        pytest.param(LOST_IN_A_SEARCH, "3 2 150.0 [False, True]", id="lost-in-a-search"),
        # If this fails, the figures of the best rate have the requests of the step that Ctrl-C ended.
        pytest.param(INTERRUPTED_SEARCH, "150 0", id="interrupted-search"),
        # If this fails, a run waits for the users of a lost worker, or does not wait for those of a live one.
        pytest.param(LOST_BEFORE_USERS_CONNECT, "True\n1 of 2 users have connected", id="lost-before"),
        # If this fails, records without a known outcome count as checked.
        pytest.param(WITHOUT_A_RESULT, "([['x']], 'worker 1: sent no result')", id="without-a-result"),
    ],
)
def test_what_becomes_of_a_run(program: str, printed: str) -> None:
    """If this fails: see the case."""
    run = subprocess.run(
        [sys.executable, "-c", HEAD + program], cwd=ROOT, capture_output=True, text=True, timeout=ENDS_S, check=False
    )
    assert run.stdout.strip() == printed, run.stderr
