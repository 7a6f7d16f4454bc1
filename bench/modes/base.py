"""Shared parts of the modes: targets that run for as long as a mode needs them, and workloads derived from others."""

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence

from bench.launch import networks
from bench.measuring.perf import Counted
from bench.spec.target import TargetSpec
from bench.spec.workload import Rate, Workload
from bench.targets.brokers import Target, TargetError, Unreached
from bench.targets.cluster import Cluster
from bench.window.engine import FAILURES, Measured, Session, Stopped, fill_for_consumers, measure, new_topic
from bench.window.steady import Warming
from bench.window.warm import warm
from broker_cy.launch.processes import ProcessError

REHEARSAL_MOST_S = 2.0


@dataclasses.dataclass
class Outcome:
    """The measurements of a mode."""

    runs: list[Measured] = dataclasses.field(default_factory=list)
    versions: dict[str, str] = dataclasses.field(default_factory=dict)
    profiles: dict[str, tuple[Counted, float]] = dataclasses.field(default_factory=dict)  # by target; seconds
    notes: list[str] = dataclasses.field(default_factory=list)  # findings of the mode, as sentences
    warm_ups: list[Warming] = dataclasses.field(default_factory=list)
    workloads: int = 1  # number that were measured alternately: if several, they are the runs' labels
    unreached: Unreached | None = None  # the error, if no broker answered at an address
    error: str | None = None  # a failure outside of the runs that ended the mode

    @property
    def failed(self) -> str | None:
        """Return the first failure, if any."""
        return self.error or next((f"{run.target}: {run.failed}" for run in self.runs if run.failed), None)


@contextlib.contextmanager
def up(session: Session, specs: Sequence[TargetSpec], outcome: Outcome) -> Iterator[dict[str, Target]]:
    """Start all targets, by name; at the end they are stopped, and the data of those started here is removed."""
    with contextlib.ExitStack() as stack:
        found: dict[str, Target] = {}
        for spec in specs:
            session.on_phase(f"{spec.name}: starting")
            target = session.target(spec)
            stack.enter_context(target.running())
            found[spec.name] = target
            outcome.versions[spec.name] = target.version()
        yield found


@contextlib.contextmanager
def cluster_up(
    session: Session, spec: TargetSpec, outcome: Outcome, *, on_hosts: bool = False, link_bits_per_s: int = 0
) -> Iterator[Cluster]:
    """As `up`, for a cluster; with `on_hosts` each node is on its own host, whose link is limited to `link_bits_per_s`,
    unless that is 0. Raises TargetError.
    """
    with contextlib.ExitStack() as stack:
        network = None
        if on_hosts:
            try:
                network = stack.enter_context(networks.made(spec.nodes, link_bits_per_s))
            except ProcessError as error:
                raise TargetError(str(error)) from error
        session.on_phase(f"{spec.name}: starting")
        cluster = session.target(spec)
        assert isinstance(cluster, Cluster)
        cluster.network = network
        stack.enter_context(cluster.running())
        outcome.versions[spec.name] = cluster.version()
        yield cluster


def at_rate(workload: Workload, rate: float, unit: str) -> Workload:
    """Return the same workload on a schedule, in requests or records per second."""
    return dataclasses.replace(workload, rate=Rate(rate, rate, unit))


def in_turn(
    session: Session, targets: dict[str, Target], workload: Workload, outcome: Outcome, pairs: int, label: str = ""
) -> None:
    """Measure A B B A ...: each target once, `pairs` times; ends early if a run failed or the session is stopped.

    The second target of a pair finds memory that the first one warmed, so each side comes first in every second pair.
    """
    take_turns(session, targets, [(workload, label)], outcome, pairs)


def take_turns(
    session: Session,
    targets: dict[str, Target],
    workloads: Sequence[tuple[Workload, str]],
    outcome: Outcome,
    pairs: int,
) -> None:
    """Like `in_turn` with several workloads, each with its label: all of them on one target, then on the next.

    Before the first pair each target is warmed up with each workload until it is steady, and then measured once in turn
    without keeping the figures: a Java virtual machine that has waited for the warm-ups of the others needs one window
    with a new topic until it is as fast as at the end of its own.
    """
    sides = [(name, target, *each) for name, target in targets.items() for each in workloads]
    reported = {}
    with contextlib.ExitStack() as stack:
        # The floor has one set of partitions: records that one workload wrote are lost for another.
        shared = len(workloads) == 1 and workloads[0][0].producers == 0
        topics = {name: _filled(session, stack, targets[name], workloads[0][0], outcome) for name in targets if shared}
        for name, target, workload, label in sides:
            if session.stop.is_set() or outcome.failed:
                return
            reported[name, label] = warm_up(session, name, target, workload, outcome, label, topics.get(name))
        for name, target, workload, label in sides if len(sides) > 1 else ():
            if not workload.steady_s or session.stop.is_set() or outcome.failed:
                continue
            short = dataclasses.replace(workload, duration_s=min(workload.duration_s, REHEARSAL_MOST_S))
            run = measure(session, name, target, short, label, topic=topics.get(name))
            if run.failed:
                outcome.error = f"rehearsal of {_side(name, label)}: {run.failed}"
        for pair in range(pairs):
            for name, target, workload, label in sides[:: -1 if pair % 2 else 1]:
                if session.stop.is_set() or outcome.failed:
                    return
                run = measure(session, name, target, workload, label, pair, topic=topics.get(name))
                run.verdicts = reported[name, label]
                outcome.runs.append(run)


def _side(name: str, label: str) -> str:
    return f"{name} {label}" if label else name


def _filled(
    session: Session, stack: contextlib.ExitStack, target: Target, workload: Workload, outcome: Outcome
) -> str | None:
    """Create a topic with the records that consumers read, until the stack ends; None if the session stopped or it
    failed.
    """
    if session.stop.is_set() or outcome.failed:
        return None
    topic = new_topic(workload.name)
    try:
        target.create_topic(topic, workload.partitions)
        stack.callback(_deleted, target, topic)
        fill_for_consumers(session, target, topic, workload)
    except Stopped:
        return None
    except FAILURES as error:
        outcome.error = f"{target.name}: {type(error).__name__}: {error}"
        return None
    return topic


def _deleted(target: Target, topic: str) -> None:
    """Delete a topic of a target that may have ended; errors are ignored, because the first one is more informative."""
    with contextlib.suppress(*FAILURES):
        if target.alive():
            target.delete_topic(topic)


def warm_up(
    session: Session,
    name: str,
    target: Target,
    workload: Workload,
    outcome: Outcome,
    label: str = "",
    topic: str | None = None,
) -> tuple[str, ...]:
    """Warm one target until it is steady; returns the remarks for every figure measured afterwards."""
    warming, failed = warm(session, name, target, workload, label, topic)
    if failed:
        outcome.error = f"warm-up of {_side(name, label)}: {failed}"
    if warming is None:
        return ()
    outcome.warm_ups.append(warming)
    verdict = warming.verdict()
    return (verdict,) if verdict else ()
