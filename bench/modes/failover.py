"""`failover`: the effect of node failures on clients with default settings, round after round.

All clients write at the same time to the same topic. A run covers one client and one kind of failure, over all rounds.
"""

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

from bench.failover.rounds import FREEZE_S, KINDS, Round, Rounds, Seen
from bench.failover.writers import percentile
from bench.launch import networks
from bench.modes.base import Outcome, cluster_up
from bench.spec.target import TargetSpec
from bench.steady_clients import programs
from bench.window.engine import FAILURES, Measured, Session, Stopped
from broker_cy.client.toml_file import SpecError
from broker_cy.launch.processes import ProcessError

CLIENTS = ("librdkafka", "franz-go", "java")
ROUNDS = 10
MOST_S = 60.0


@dataclass(frozen=True)
class Plan:
    """The failures, their number, and the writing clients. No round of a kind begins later than `most_s` after its
    first. `hosts`: each node is on its own host for all kinds, not only for the one that needs it. `idle`: partitions
    without writers.
    """

    kinds: Sequence[str] = tuple(KINDS)
    rounds: int = ROUNDS
    most_s: float = MOST_S
    clients: Sequence[str] = CLIENTS
    freeze_s: float = FREEZE_S
    hosts: bool = False
    idle: int = 0


def failover(session: Session, specs: Sequence[TargetSpec], outcome: Outcome, plan: Plan) -> None:
    """Measure one cluster after the other: the rounds of one do not depend on another's. Raises SpecError, TargetError.

    Clients and kinds whose requirements are missing are left out, with the reason as a note.
    """
    if others := [spec.name for spec in specs if spec.nodes == 1]:
        raise SpecError(
            f"target {others[0]} is no cluster of the tool's own (allowed: ours-3, kafka-3, files with `nodes`)"
        )
    clients = []
    for client in plan.clients:
        if (reason := programs.missing(client)) is None:
            clients.append(client)
        else:
            outcome.notes.append(f"{client} is left out: {reason}")
    if not clients:
        raise SpecError(f"--clients {','.join(plan.clients)}: none of them can run here")
    on_hosts = [kind for kind in plan.kinds if plan.hosts or kind == "cut"]
    together = [kind for kind in plan.kinds if kind not in on_hosts]
    if on_hosts and (sentence := networks.missing()) is not None:
        outcome.notes += [f"{KINDS[kind]} is left out: {sentence}" for kind in on_hosts]
        on_hosts = []
    for spec in specs:
        for group, apart in ((together, False), (on_hosts, True)):
            if session.stop.is_set() or outcome.failed:
                return
            if group:
                _cluster(session, spec, outcome, plan, clients, group, apart)


def _cluster(
    session: Session,
    spec: TargetSpec,
    outcome: Outcome,
    plan: Plan,
    clients: Sequence[str],
    kinds: Sequence[str],
    apart: bool,
) -> None:
    """Measure some kinds on one cluster, each round of all clients."""
    with cluster_up(session, spec, outcome, on_hosts=apart) as cluster:
        session.on_phase(f"{spec.name}: clients")
        directory = session.root / f"{spec.name}.clients"
        rounds = Rounds(cluster, clients, directory, session.go_on, plan.freeze_s, plan.idle)
        try:
            rounds.settle()
            for kind in kinds:
                outcome.runs += _kind(session, rounds, outcome, kind, plan)
                session.on_window()
            rounds.finish()
        except Stopped:
            pass
        finally:
            rounds.close()


def _kind(session: Session, rounds: Rounds, outcome: Outcome, kind: str, plan: Plan) -> list[Measured]:
    """Measure one kind of failure; returns a run for each client."""
    name = rounds.cluster.name
    runs = [Measured.begin(name, f"{KINDS[kind]}, {writer.client}") for writer in rounds.writers]
    errors = [len(writer.failed) for writer in rounds.writers]
    found: list[Round] = []
    try:
        deadline = time.monotonic() + plan.most_s
        for number in range(1, plan.rounds + 1):
            if number > 1 and time.monotonic() > deadline:
                break
            session.on_phase(f"{name}: {KINDS[kind]}, round {number} of {plan.rounds}")
            found.append(rounds.round(kind))
            outcome.notes.append(f"{name}: {found[-1]}")
    except Stopped:
        pass
    except (ProcessError, *FAILURES) as error:
        for run in runs:
            run.failed = f"{type(error).__name__}: {error}"
        return runs
    for run, writer, before in zip(runs, rounds.writers, errors, strict=True):
        if found:
            failed = writer.failed[before:]
            run.extra = {
                **_figures([each.seen[writer.client] for each in found]),
                **_shown(found),
                "errors": len(failed),
            }
            run.verdicts = tuple(f"an error of {writer.client}: {text}" for text in failed[:3])
        run.empty = not found
    return runs


def _figures(seen: Sequence[Seen]) -> dict[str, float]:
    gaps = [each.gap_ms for each in seen]
    before, during, after = (
        percentile([value for each in part for value in each], 99)
        for part in (
            [each.before_ms for each in seen],
            [each.during_ms for each in seen],
            [each.after_ms for each in seen],
        )
    )
    return {
        "rounds": len(seen),
        "gap_p50_ms": percentile(gaps, 50),
        "gap_p99_ms": percentile(gaps, 99),
        "gap_max_ms": max(gaps),
        "others_max_ms": max(each.others_ms for each in seen),
        "before_p99_ms": before,
        "during_p99_ms": during,
        "after_p99_ms": after,
        "added_p99_ms": max(0.0, during - before),
    }


def _shown(rounds: Sequence[Round]) -> dict[str, float]:
    """Return the medians of the times that the nodes showed, and of the phases in their logs."""
    found = {
        "leaders_shown_ms": [each.leaders_ms for each in rounds if each.leaders_ms is not None],
        "controller_shown_ms": [each.controller_ms for each in rounds if each.controller_ms is not None],
    }
    for phase in dict.fromkeys(phase for each in rounds for phase in each.phases_ms):
        found[f"{phase}_ms"] = [each.phases_ms[phase] for each in rounds if phase in each.phases_ms]
    return {name: statistics.median(values) for name, values in found.items() if values}
