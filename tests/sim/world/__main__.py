"""`python -m tests.sim.world`: run seeds, replay one, and make a failing plan smaller. See docs/simulation.md."""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from pathlib import Path

from tests.sim.world.draws import Trace
from tests.sim.world.plan import EVERYTHING, NAMES, Plan, plan_of
from tests.sim.world.run import GARBAGE_OBJECTS, Result, collecting_seldom, run_plan, run_seed, shrink


def main() -> int:
    """Returns 1 if a world failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim.world", description=__doc__)
    parser.add_argument("--first", type=int, default=0, help="first seed (0)")
    parser.add_argument("--count", type=int, default=1, help="number of seeds (1)")
    parser.add_argument("--profile", choices=NAMES, default=EVERYTHING, help="what plans are drawn from (everything)")
    parser.add_argument("--plan", type=Path, metavar="FILE", help="run the plan in this file instead of seeds")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="write the smallest plan that fails to this file")
    parser.add_argument("--trace", type=Path, metavar="FILE", help="write all draws and events to this file")
    parser.add_argument("--digests", action="store_true", help="print one line for each seed: its digest")
    parser.add_argument(
        "--garbage",
        type=int,
        default=GARBAGE_OBJECTS,
        metavar="N",
        help=f"collect garbage whenever there are N more objects, 0: never ({GARBAGE_OBJECTS}); digests do not change",
    )
    options = parser.parse_args()
    with collecting_seldom(options.garbage):
        if options.plan is not None:
            return _one(Plan.from_json(options.plan.read_text()), options)
        if options.count == 1 and not options.digests:
            return _one(plan_of(options.first, options.profile), options)
        return _many(options)


def _one(plan: Plan, options: argparse.Namespace) -> int:
    trace = Trace(keeps=options.trace is not None)
    result = run_plan(plan, trace)
    if trace.lines is not None:
        options.trace.write_text("\n".join(trace.lines) + "\n")
    print(plan.to_json())
    print(f"{result.steps} steps, {result.virtual_s:.1f} s of virtual time, {result.draws} draws, {result.digest}")
    return _report(result, options)


def _many(options: argparse.Namespace) -> int:
    began = time.monotonic()
    steps, virtual_s = 0, 0.0
    for seed in range(options.first, options.first + options.count):
        result = run_seed(seed, options.profile)
        steps += result.steps
        virtual_s += result.virtual_s
        if options.digests:
            print(seed, result.digest, flush=True)
        if result.failure is not None:
            print(f"seed {seed} fails")
            return _report(result, options)
    took_s = time.monotonic() - began
    print(
        f"{options.count} seeds in {took_s:.1f} s: {options.count / took_s * 3600:,.0f} seeds/h, "
        f"{steps / took_s:,.0f} steps/s, {virtual_s / took_s:.1f} simulated s/s"
    )
    return 0


def _report(result: Result, options: argparse.Namespace) -> int:
    if result.failure is None:
        return 0
    traceback.print_exception(result.failure)
    if options.keep is not None:
        smallest = shrink(result, lambda found: print(f"{len(found.plan.faults)} faults, {found.plan.clients}"))
        options.keep.write_text(smallest.plan.to_json() + "\n")
        print(smallest.plan.to_json())
        print(f"again: python -m tests.sim.world --plan {options.keep}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
