"""Shared code of the programs that measure a single component (`python -m bench.studies.load`,
`bench.studies.analytics`, `bench.studies.dashboard`): options, parts that are measured one after the other, and figures
with goals.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bench.targets.brokers import TargetError
from broker_cy.launch.processes import ProcessError

Figures = dict[str, float | list[float]]
"""Figures by name; figures of repeats are lists."""

FAILED, MISSED = 1, 3


@dataclass(frozen=True)
class Goals:
    """The lower or upper bounds of figures; figures without an entry explain others."""

    at_least: Mapping[str, float] = field(default_factory=dict)
    at_most: Mapping[str, float] = field(default_factory=dict)

    def verdict(self, figure: str, value: float) -> str:
        """Return whether a figure reaches its goal, in words; "" if it has none."""
        if (least := self.at_least.get(figure)) is not None:
            return f"{'reached' if value >= least else 'missed'}: at least {least:,g}"
        if (most := self.at_most.get(figure)) is not None:
            return f"{'reached' if value <= most else 'missed'}: at most {most:,g}"
        return ""


def parser(program: str, description: str | None, parts: Collection[str]) -> argparse.ArgumentParser:
    """Return a parser with the options that all programs have. `parts` are the names that `--only` takes."""
    made = argparse.ArgumentParser(
        prog=f"python -m {program}", description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    allowed = f"{', '.join(parts)}; default: all"
    made.add_argument("--only", default=",".join(parts), help=f"figures to measure, separated by commas ({allowed})")
    made.add_argument("--json-file", dest="json", metavar="FILE", help="also write the figures to this file")
    made.add_argument("--strict", action="store_true", help="exit code 3 if a goal was missed")
    return made


def check(
    made: argparse.ArgumentParser, given: argparse.Namespace, parts: Collection[str], positive: Iterable[str]
) -> None:
    """Split `--only`, and end the program if it names an unknown part, or an option of `positive` is below 1."""
    given.only = given.only.split(",")
    if unknown := sorted(set(given.only) - set(parts)):
        made.error(f"--only {', '.join(unknown)}: unknown (allowed: {', '.join(parts)})")
    for name in positive:
        if getattr(given, name) < 1:
            made.error(f"--{name.replace('_', '-')} {getattr(given, name)}: a number from 1 on is expected")


def show(figures: Figures, goals: Goals) -> bool:
    """Print the figures, for repeats the median and the range; returns whether a goal was missed."""
    is_missed = False
    for figure, found in figures.items():
        values = found if isinstance(found, list) else [found]
        middle = statistics.median(values)
        spread = f" ({min(values):,.3f} to {max(values):,.3f})" if len(values) > 1 else ""
        judged = goals.verdict(figure, middle)
        is_missed |= judged.startswith("missed")
        print(f"{figure:>36} {middle:16,.3f}{spread}   {judged}".rstrip(), flush=True)
    return is_missed


def measure(program: str, given: argparse.Namespace, goals: Goals, of: Callable[[str], Figures]) -> int:
    """Measure each part of `--only` and print its figures.

    Returns FAILED if a part failed, so that its figures are missing, and MISSED if --strict was given and a goal was
    missed.
    """
    figures: Figures = {}
    is_failed = is_missed = False
    for part in given.only:
        try:
            found = of(part)
        except (ProcessError, TargetError) as error:
            # The other parts take many minutes, and do not depend on this one.
            print(f"{program}: {part}: {error}", file=sys.stderr)
            is_failed = True
            continue
        figures |= found
        is_missed |= show(found, goals)
    if given.json:
        Path(given.json).write_text(json.dumps(figures, indent=1) + "\n")
    if is_failed:
        return FAILED
    return MISSED if given.strict and is_missed else 0
