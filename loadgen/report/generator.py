"""Whether the generator, and not the cluster, was the limit of a run. In that case the figures do not describe the
cluster.

The rules; one that is broken is enough:

cpu        A worker used more than 0.95 of a core (`bench.drivers.base.GENERATOR_LIMIT`).
lateness   The 99th percentile of the lateness, which is the delay with which a user that was free began an operation,
           is above 1 ms and above a tenth of the lowest 99th percentile of the latency of a scheduled operation: of
           that latency it is a part that the cluster did not cause.
hub_lag    The 99th percentile of the time for which a worker's event loop did not run is above 50 ms.
users      More than 5 % of the scheduled operations waited for a free user while the cluster answered as usual: more
           users are needed. See `starved`.
lost       A worker was lost, so that its part of the load is missing.
nothing    No operation was performed at all.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from bench.drivers.base import GENERATOR_LIMIT as CPU_SHARE_MAX
from bench.measuring.histogram import Histogram
from broker_cy.reporting import numbers
from loadgen.figures.totals import Operation, Second, Totals, percentile_ms
from loadgen.report.result import Check, Generator, Worker
from loadgen.scenario.model import Scenario
from loadgen.scenario.options import KINDS

LATENESS_MS_MIN = 1.0  # lateness below this is never the limit
LATENESS_SHARE_MAX = 0.1  # of the p99 of the latency
HUB_LAG_MS_MAX = 50.0
QUEUED_SHARE_MAX = 0.05
# An operation waits for users if its latency is this many times its service time, on average.
WAITS_FACTOR = 2.0
# The cluster is slower than usual if its median service time is this many times the median of quiet seconds.
SLOWER_FACTOR = 2.0
# Failures explain the waits of a second if they reach this share of its operations.
FAILED_SHARE = 0.05
# A stall explains the waits of a second if one answer took this share of the longest latency.
STALL_SHARE = 0.5


def judge(scenario: Scenario, totals: Totals, workers: Sequence[Worker]) -> Generator:
    """Return the evidence for and against the generator."""
    paced = _paced(scenario, totals)
    cpu = max((each.cpu_share for each in workers), default=None)
    late, late_most = _lateness(totals, paced)
    lag = percentile_ms(totals.hub_lag, 99)
    share = starved(totals, paced.keys()) / max(1, scheduled(totals))
    lost = sum(each.missing_share for each in workers)
    checks = (
        Check("cpu", "CPU of the busiest worker", cpu, CPU_SHARE_MAX, "of a core"),
        Check("lateness", "Lateness, p99", late, late_most, "ms"),
        Check("hub_lag", "Lag of the event loop, p99", lag, HUB_LAG_MS_MAX, "ms"),
        Check("users", "Operations that lacked a user", share, QUEUED_SHARE_MAX, "share"),
        Check("lost", "Load missing with lost workers", lost, 0.0, "share"),
    )
    reasons = []
    for each in workers:
        if each.cpu_share > CPU_SHARE_MAX:
            reasons.append(f"worker {each.index} used {each.cpu_share:.2f} of a core (at most {CPU_SHARE_MAX})")
    if late is not None and late > late_most:
        reasons.append(
            f"operations began {late:.3g} ms late at p99 although a user was free (at most {late_most:.3g} ms)"
        )
    if lag is not None and lag > HUB_LAG_MS_MAX:
        reasons.append(f"the event loop of workers was blocked for {lag:.3g} ms at p99 (at most {HUB_LAG_MS_MAX:g} ms)")
    if share > QUEUED_SHARE_MAX:
        reasons.append(
            f"{numbers.share(share)} of the scheduled operations waited for a free user while the cluster answered as "
            f"usual (at most {numbers.share(QUEUED_SHARE_MAX)}): more users are needed"
        )
    for each in workers:
        if each.lost is not None and each.missing_share > 0:
            reasons.append(
                f"worker {each.index} was lost ({each.lost}), and with it "
                f"{numbers.share(each.missing_share)} of the load"
            )
    if not any(each.requests or each.failures for each in totals.operations.values()):
        reasons.append("no operation was performed")
    return Generator(checks, tuple(reasons))


def scheduled(totals: Totals) -> int:
    """Return the number of operations that were due: each found an idle user, whose lateness was recorded, or waited
    for one, possibly until the run ended.
    """
    return totals.lateness.count + totals.queued + totals.unsent


def _paced(scenario: Scenario, totals: Totals) -> dict[str, Operation]:
    """Return the operations with a schedule."""
    names = {name for each in scenario.users if each.rate for name in KINDS[each.kind].scheduled}
    return {name: each for name, each in totals.operations.items() if name in names}


def _lateness(totals: Totals, paced: dict[str, Operation]) -> tuple[float | None, float]:
    """Return the p99 of the lateness and its limit, in ms."""
    known = [p99 for each in paced.values() if (p99 := percentile_ms(each.latency, 99)) is not None]
    return percentile_ms(totals.lateness, 99), max(LATENESS_MS_MIN, LATENESS_SHARE_MAX * min(known, default=0.0))


@dataclass
class _Stall:
    """The longest latency of an operation in the last second that a stall of the cluster explains."""

    latency_ns: int = 0


def starved(totals: Totals, paced: Collection[str]) -> int:
    """Return the number of operations that waited for a free user in seconds in which the cluster does not explain it.

    A second counts if more than QUEUED_SHARE_MAX of the average operations of a second had to wait, and a scheduled
    operation had a latency far above its service time without one of these explanations:

    - the cluster failed: more than FAILED_SHARE of the operations that ended in that second failed;
    - the cluster stalled: an answer of that second took at least half of its longest latency; or it still recovers
      from such a stall: the longest latency has fallen from second to second since then;
    - the cluster became slower: the median service time is twice that of the seconds in which no operation had to
      wait. Without such seconds, the run cannot show what the cluster does with more users, so this explains nothing.

    Operations that still waited when the run ended belong to the last second that counts.
    """
    known = [totals.series[second] for second in sorted(totals.series)]
    bound = QUEUED_SHARE_MAX * (scheduled(totals) - totals.unsent) / max(1, len(known))
    usual = _usual([each for each in known if each.queued <= bound])
    stalls: dict[str, _Stall] = {}
    found = 0
    blamed: list[str] = []
    for second in known:
        if second.queued <= bound:
            stalls.clear()
            continue
        waiting = [name for name in paced if (each := second.operations.get(name)) is not None and _waits(each)]
        # Each operation is examined, also after the first: this updates the state of its stall.
        blamed = [
            name
            for name in waiting
            if not _explained(second.operations[name], stalls.setdefault(name, _Stall()), usual.get(name))
        ]
        if blamed:
            found += second.queued
    return found + (totals.unsent if blamed else 0)


def _usual(quiet: Sequence[Second]) -> dict[str, int]:
    """Return the median service time of each operation, in ns, over the seconds in which no operation had to wait."""
    found: dict[str, Histogram] = {}
    for second in quiet:
        for name, each in second.operations.items():
            found.setdefault(name, Histogram()).merge(each.service)
    return {name: each.percentile(50) for name, each in found.items() if each.count}


def _waits(operation: Operation) -> bool:
    latency, service = operation.latency, operation.service
    return bool(latency.count and service.count and latency.mean() > WAITS_FACTOR * service.mean())


def _explained(operation: Operation, stall: _Stall, usual_ns: int | None) -> bool:
    """Return whether the cluster made this operation wait in this second."""
    longest_ns = operation.latency.highest
    has_failed = operation.failures > FAILED_SHARE * (operation.requests + operation.failures)
    if has_failed or operation.service.highest >= STALL_SHARE * longest_ns or longest_ns < stall.latency_ns:
        stall.latency_ns = longest_ns
        return True
    stall.latency_ns = 0
    return usual_ns is not None and operation.service.percentile(50) >= SLOWER_FACTOR * usual_ns
