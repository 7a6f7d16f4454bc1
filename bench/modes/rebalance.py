"""`rebalance`: the stalls of partitions while members of a group join, leave and are killed under load."""

import dataclasses
import itertools
import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event

from bench.drivers.base import SAMPLE_S, DriverError, Sample
from bench.drivers.group import Group
from bench.drivers.raw import list_offsets
from bench.measuring import proc, stalls
from bench.modes.base import Outcome, up, warm_up
from bench.report.metrics import PARTITION_STALL
from bench.spec.target import TargetSpec
from bench.spec.workload import Workload
from bench.targets.brokers import Target
from bench.window.engine import FAILURES, Measured, Session, Stopped, measure, new_topic
from bench.wire.protocol import LATEST
from broker_cy.client.toml_file import SpecError

# The steps, and the share of the window after each: a kill is only detected at the end of the session.
STEPS = (("steady", 0.15), ("a member joins", 0.2), ("a member leaves", 0.2), ("a member is killed", 0.45))
SPARE_S = 1.0  # of the last step, beyond the session's timeout
CATCH_UP_S = 30.0  # for the group to consume the remaining records after the producers have ended
LOOK_S = 0.02
PARTITIONS_TOLD = 64  # partitions that have a separate figure


@dataclasses.dataclass(frozen=True)
class Plan:
    """The group: the initial number of members, and its settings."""

    members: int
    session_timeout_s: float
    assignor: str


def rebalance(
    session: Session, specs: Sequence[TargetSpec], workload: Workload, outcome: Outcome, plan: Plan, pairs: int
) -> None:
    """Measure each target in turn, `pairs` times: producers on a schedule, and the STEPS of the group."""
    check(workload, plan)
    producing = dataclasses.replace(workload, consumers=0)
    with up(session, specs, outcome) as targets:
        verdicts = {name: warm_up(session, name, target, producing, outcome) for name, target in targets.items()}
        for pair in range(pairs):
            for name, target in list(targets.items())[:: -1 if pair % 2 else 1]:
                if session.stop.is_set() or outcome.failed:
                    return
                runs = _measure(session, name, target, producing, plan, pair)
                for run in runs:
                    run.verdicts = verdicts[name]
                outcome.runs += runs


def check(workload: Workload, plan: Plan) -> None:
    """Raise SpecError for a workload with which stalls cannot be measured."""
    if workload.driver != "raw" or not workload.producers or workload.rate.unlimited or workload.rate.ramp_s:
        raise SpecError(
            f"workload {workload.name}: stalls are measured against a steady schedule "
            '(needed: driver = "raw", producers, and a rate such as "1000 requests/s")'
        )
    if (least_s := (plan.session_timeout_s + SPARE_S) / STEPS[-1][1]) > workload.duration_s:
        raise SpecError(
            f"time.duration: {workload.duration_s:g} s is too short to see the end of a session of "
            f"{plan.session_timeout_s:g} s (allowed: at least {least_s:.1f} s)"
        )


def _measure(session: Session, name: str, target: Target, workload: Workload, plan: Plan, pair: int) -> list[Measured]:
    """Measure the producers' run, and one run for each step."""
    steps = [Measured.begin(name, label, pair) for label, _ in STEPS]
    topic = new_topic(workload.name)
    flowing = Event()
    beside = dataclasses.replace(session, on_sample=_when_it_flows(flowing, session))
    runs: list[Measured] = []
    group = Group(target.address, topic, workload.partitions, plan.session_timeout_s, plan.assignor)
    try:
        target.create_topic(topic, workload.partitions)
        session.on_phase(f"{name}: {plan.members} members join")
        for _ in range(plan.members):
            group.join()
        group.await_assigned(session.go_on)
        with ThreadPoolExecutor(1) as pool:
            future = pool.submit(measure, beside, name, target, workload, "producers", pair, topic=topic)
            try:
                begins = _act(session, name, workload, group, flowing, future)
            finally:
                runs.append(future.result())
        session.go_on()
        if not runs[0].failed:
            ends = list_offsets(target.leaders(topic, workload.partitions), topic, LATEST)
            _catch_up(session, group, ends)
            _tell(steps, runs[0], group, workload, begins, ends)
            runs += steps
    except Stopped:
        pass
    except FAILURES as error:
        steps[0].failed = f"{type(error).__name__}: {error}"
        runs.append(steps[0])
    finally:
        group.close()
    if target.alive():
        target.delete_topic(topic)
    return runs


def _when_it_flows(flowing: Event, session: Session) -> Callable[[str, Sample, proc.Sampled | None], None]:
    def tell(name: str, sample: Sample, usage: proc.Sampled | None) -> None:
        flowing.set()
        if session.on_sample is not None:
            session.on_sample(name, sample, usage)

    return tell


def _act(
    session: Session, name: str, workload: Workload, group: Group, flowing: Event, producers: "Future[Measured]"
) -> list[float]:
    """Run the STEPS at their times; returns the begin of each and the end of the last one (monotonic seconds), or fewer
    times if the producers ended early.
    """
    while not flowing.wait(LOOK_S) and not producers.done():
        group.check()
    at = time.monotonic() - SAMPLE_S  # the first sample covers that time
    begins = []
    for label, share in STEPS:
        session.on_phase(f"{name}: {label}")
        begins.append(time.monotonic())
        if label == "a member joins":
            group.join()
        elif label == "a member leaves":
            group.leave()
        elif label == "a member is killed":
            group.kill()
        at += share * workload.duration_s
        while time.monotonic() < at and not producers.done():
            session.go_on()
            group.check()
            time.sleep(LOOK_S)
    return [*begins, at]


def _catch_up(session: Session, group: Group, ends: dict[int, int]) -> None:
    """Wait until all records of the topic are consumed. Raises DriverError if that takes longer than CATCH_UP_S."""
    deadline = time.monotonic() + CATCH_UP_S
    while missing := stalls.coverage(list(group.taken), ends)[0]:
        session.go_on()
        group.check()
        if time.monotonic() > deadline:
            raise DriverError(f"{missing} records acknowledged, but not received by the group")
        time.sleep(10 * LOOK_S)


def _tell(
    steps: Sequence[Measured],
    producers: Measured,
    group: Group,
    workload: Workload,
    begins: Sequence[float],
    ends: dict[int, int],
) -> None:
    """Add the figures of each step."""
    interval_s = workload.partitions * producers.result.seconds / producers.result.requests
    # The producers may have ended just before: then their last records were also consumed before.
    end = min(begins[-1], max(took.at_ns for took in group.taken) / stalls.NS)
    spans = list(itertools.pairwise([*begins[:-1], end]))
    found = stalls.longest(group.taken, workload.partitions, spans, interval_s)
    again = stalls.coverage(group.taken, ends)[1]
    for step, by_partition in zip(steps, found, strict=True):
        seconds = [stall.seconds for stall in by_partition.values()]
        step.extra = {
            "stall_max_ms": max(seconds) * 1000,
            "stall_p50_ms": statistics.median(seconds) * 1000,
            "stalled_at_the_end": sum(stall.lasting for stall in by_partition.values()),
        }
        for partition, stall in list(by_partition.items())[:PARTITIONS_TOLD]:
            step.extra[f"{PARTITION_STALL}{partition}"] = stall.seconds * 1000
    steps[-1].extra["consumed_again"] = again
