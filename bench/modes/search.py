"""`ceiling`: the highest rate a target sustains with its p99 under a bound, by search."""

from collections.abc import Sequence

from bench.drivers.base import GENERATOR_LIMIT
from bench.modes.base import Outcome, at_rate, up, warm_up
from bench.spec.target import TargetSpec
from bench.spec.workload import Workload
from bench.targets.brokers import Target
from bench.window.engine import Measured, Session, measure

KEPT_SHARE = 0.98  # of the rate: if less than this is acknowledged, the rate is not sustained
STEPS_MAX = 24
PRECISION = 0.05
HOPELESS = 1 / 16


def sustained(run: Measured, rate: float, bound_ms: float, unit: str = "requests") -> bool:
    """Return whether a run kept the rate with its p99 within the bound, and without an error."""
    result = run.result
    if run.failed or not result.seconds:
        return False
    done = result.requests if unit == "requests" else result.records
    kept = done / result.seconds >= KEPT_SHARE * rate
    return kept and result.latency.percentile(99) / 1e6 <= bound_ms


def ceilings(
    session: Session, specs: Sequence[TargetSpec], workload: Workload, outcome: Outcome, bound_ms: float, start: float
) -> None:
    """Find the ceiling of each target, one after the other."""
    for spec in specs:
        with up(session, [spec], outcome) as targets:
            search(session, spec.name, targets[spec.name], workload, outcome, bound_ms, start)


def search(
    session: Session,
    name: str,
    target: Target,
    workload: Workload,
    outcome: Outcome,
    bound_ms: float,
    start: float,
) -> None:
    """Double the rate from `start` until it is not sustained, then halve the interval down to PRECISION of the rate.

    A rate that fails is tried twice, because the machine may have paused once. If no rate is sustained, the search ends
    at the fraction HOPELESS of the start.
    """
    unit = "requests" if workload.driver == "raw" else "records"
    low, high, rate = 0.0, 0.0, start
    runs: list[Measured] = []
    verdicts = warm_up(session, name, target, at_rate(workload, rate, unit), outcome)
    for _ in range(STEPS_MAX):
        if session.stop.is_set() or outcome.failed:
            return
        for attempt in range(2):
            label = f"{rate:,.0f} {unit}/s" + (", again" if attempt else "")
            runs.append(measure(session, name, target, at_rate(workload, rate, unit), label))
            runs[-1].verdicts = verdicts
            outcome.runs.append(runs[-1])
            if runs[-1].failed:
                return
            if sustained(runs[-1], rate, bound_ms, unit):
                low = rate
                break
        else:
            high = rate
        if high and (high - low <= PRECISION * high or high <= start * HOPELESS):
            break
        rate = (low + high) / 2 if high else rate * 2
    bound = f"with p99 <= {bound_ms:g} ms"
    if not low:
        outcome.notes.append(f"{name}: not even {rate:,.0f} {unit}/s are sustained {bound}")
    elif not high:
        outcome.notes.append(f"{name}: {low:,.0f} {unit}/s are sustained {bound}; the search ended there")
    else:
        outcome.notes.append(f"{name}: {low:,.0f} {unit}/s are sustained {bound}; {high:,.0f} are not")
        if any(run.result.generator_share > GENERATOR_LIMIT for run in runs[-2:]):
            outcome.notes.append(f"{name}: the generator was the limit there; the target may sustain more")
