"""What modes share: targets that are up for as long as a mode needs them, and workloads made from others."""

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence

from bench.engine import Measured, Session, measure
from bench.perf import Counted
from bench.spec.target import TargetSpec
from bench.spec.workload import Rate, Workload
from bench.targets import Target


@dataclasses.dataclass
class Outcome:
    """What a mode measured."""

    runs: list[Measured] = dataclasses.field(default_factory=list)
    versions: dict[str, str] = dataclasses.field(default_factory=dict)
    profiles: dict[str, tuple[Counted, float]] = dataclasses.field(default_factory=dict)  # of a target; seconds
    notes: list[str] = dataclasses.field(default_factory=list)  # what the mode found, in words
    workloads: int = 1  # that took turns: then they are the runs' labels
    error: str | None = None  # what ended the mode, apart from its runs

    @property
    def failed(self) -> str | None:
        """The first failure there is."""
        return self.error or next((f"{run.target}: {run.failed}" for run in self.runs if run.failed), None)


@contextlib.contextmanager
def up(session: Session, specs: Sequence[TargetSpec], outcome: Outcome) -> Iterator[dict[str, Target]]:
    """All targets started, by name; stopped at the end, and what was started here has its data removed."""
    with contextlib.ExitStack() as stack:
        found: dict[str, Target] = {}
        for spec in specs:
            session.on_phase(f"{spec.name}: starting")
            target = session.target(spec)
            stack.enter_context(target.running())
            found[spec.name] = target
            outcome.versions[spec.name] = target.version()
        yield found


def at_rate(workload: Workload, rate: float, unit: str) -> Workload:
    """The same workload on a schedule, in requests or records a second."""
    return dataclasses.replace(workload, rate=Rate(rate, rate, unit))


def in_turn(
    session: Session, targets: dict[str, Target], workload: Workload, outcome: Outcome, pairs: int, label: str = ""
) -> None:
    """A B B A ...: each target once, `pairs` times; ends early where a run failed or the session is stopped.

    Who comes after another finds memory that is warm from it, so each side comes first in every second pair.
    """
    take_turns(session, targets, [(workload, label)], outcome, pairs)


def take_turns(
    session: Session,
    targets: dict[str, Target],
    workloads: Sequence[tuple[Workload, str]],
    outcome: Outcome,
    pairs: int,
) -> None:
    """`in_turn` with several workloads, each with its label: all of them on one target, then on the next."""
    sides = [(name, target, *each) for name, target in targets.items() for each in workloads]
    for pair in range(pairs):
        for name, target, workload, label in sides[:: -1 if pair % 2 else 1]:
            if session.stop.is_set():
                return
            run = measure(session, name, target, workload, label, pair)
            outcome.runs.append(run)
            if run.failed:
                return
