"""`broker-bench record`: perform the measurements that are not recorded yet, and fill in the tables of a document."""

import argparse
import contextlib
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.record import plan as plans
from bench.record import tables
from bench.record.plan import Measurement, Plan
from bench.record.runner import is_recorded, record
from broker_cy.client.errors import ClientError, Failure
from broker_cy.client.program import EXIT_INTERRUPTED


def main(options: argparse.Namespace) -> int:
    """Run the command and return the exit code. Raises ClientError, ResultError and OSError.

    0: all requested measurements are recorded; 1: one failed or was left out; 130: Ctrl-C.
    """
    plan = plans.load()
    wanted = chosen(plan, options.only)
    if options.list:
        show(wanted, options.out, as_json=options.as_json)
        return 0
    with contextlib.redirect_stdout(sys.stderr if options.as_json else sys.stdout):
        try:
            code = 0 if options.fill or record(wanted, options.out, options.budget, options.again) else 1
        except KeyboardInterrupt:
            code = EXIT_INTERRUPTED
        fill(plan, options.out, options.doc)
    if options.as_json:
        show(wanted, options.out, as_json=True)
    return code


def show(measurements: Sequence[Measurement], directory: Path, *, as_json: bool) -> None:
    """Print the measurements, and which of them are recorded."""
    rows = [(each, is_recorded(directory, each)) for each in measurements]
    if as_json:
        fields = [
            {"name": each.name, "seconds": each.seconds, "command": each.text, "is_recorded": found}
            for each, found in rows
        ]
        print(json.dumps(fields))
        return
    for each, found in rows:
        state = "recorded" if found else f"{each.seconds:.0f} s"
        print(f"{each.name:<28} {state:>9}  {each.text}")
    print(f"{sum(each.seconds for each in measurements):.0f} s in all")


def chosen(plan: Plan, names: Sequence[str] | None) -> list[Measurement]:
    """Return the measurements with these names, of tables or of groups with these names; all for None.

    Raises ClientError.
    """
    if names is None:
        return list(plan.measurements)
    several = {table.name: {row.measurement for row in table.rows} for table in plan.tables}
    for each in plan.measurements:
        if each.group:
            several.setdefault(each.group, set()).add(each.name)
    known = {each.name for each in plan.measurements} | several.keys()
    if unknown := [name for name in names if name not in known]:
        reason = f"no such measurement, table or group (allowed: {', '.join(sorted(known))})"
        raise ClientError(Failure.INVALID, reason, what=f"--only {unknown[0]}")
    wanted = set(names).union(*(several.get(name, set()) for name in names))
    return [each for each in plan.measurements if each.name in wanted]


def fill(plan: Plan, directory: Path, document: Path) -> None:
    """Replace the tables of `document` with the recorded figures."""
    prose = document.read_text(encoding="utf-8")
    link = os.path.relpath(directory.resolve(), document.resolve().parent)
    document.write_text(tables.fill(prose, plan, tables.documents(plan, directory), link), encoding="utf-8")
    print(document)
