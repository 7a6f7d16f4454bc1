"""Rounds of faults on lab hosts. Each is drawn from the seed and its number, so that it can be repeated."""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

from tests.history.checker import Anomaly
from tests.lab.faults import KINDS, LENGTHS_S, Fault, draw
from tests.lab.hosts import UNSHARE, why_not
from tests.lab.rounds import Round, on_hosts, table

# Acknowledged only by a leader that the other nodes no longer reach.
PLANTED = Fault("cut", "leader", 8.0, "nodes", 0)
ACKS_ONE: dict[str, str | int] = {"acks": 1, "enable.idempotence": False}


def kinds(text: str) -> list[str]:
    """Parse names of kinds, separated by commas."""
    found = text.split(",")
    if unknown := set(found) - set(KINDS):
        raise argparse.ArgumentTypeError(f"unknown kind {min(unknown)!r}; there are {', '.join(KINDS)}")
    return found


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.lab", description=__doc__)
    parser.add_argument("--rounds", type=int, default=20, help="how many rounds (20)")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 31), help="what rounds are drawn from")
    parser.add_argument("--first", type=int, default=0, help="the number of the first round (0)")
    parser.add_argument("--kind", type=kinds, default=list(KINDS), help=f"which kinds ({','.join(KINDS)})")
    parser.add_argument(
        "--length", type=float, nargs=2, default=LENGTHS_S, metavar=("FROM", "TO"), help="of a fault, in seconds"
    )
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of all nodes")
    parser.add_argument("--directory", type=Path, help="a new directory for logs (one that is removed)")
    parser.add_argument("--planted", action="store_true", help="let acks=1 lose records, which has to be found")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def run(given: argparse.Namespace) -> None:
    settings = dict(each.split("=", 1) for each in given.set)
    done: list[Round] = []
    with on_hosts(given.directory, settings) as rounds:
        try:
            for number in range(given.first, given.first + given.rounds):
                done.append(rounds.round(number, draw(given.seed, number, given.kind, tuple(given.length))))
            rounds.finish()
        finally:
            print(table(done), flush=True)
            print(f"{rounds.work.acked} records acknowledged, copied and read", flush=True)


def run_planted(directory: Path) -> None:
    """Lose acknowledged records, and print how many of them the checker has found."""
    with on_hosts(directory, producer=ACKS_ONE) as rounds:
        print(rounds.disturb(0, PLANTED))
        found = Counter(each.anomaly for each in rounds.work.judge_all())
        print(f"found: {found[Anomaly.LOST_WRITE]} lost writes", flush=True)
        if not found[Anomaly.LOST_WRITE]:
            sys.exit("the checker has not found the records that were lost")


def main() -> None:
    given = arguments()
    if not given.inside:
        if (reason := why_not()) is not None:
            sys.exit(f"no lab hosts: {reason}")
        os.execvp(UNSHARE[0], [*UNSHARE, sys.executable, "-m", "tests.lab", "--inside", *sys.argv[1:]])
    print(f"seed {given.seed}", flush=True)
    with ExitStack() as stack:
        if given.directory is None:
            given.directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        else:
            given.directory.mkdir(parents=True)
        if given.planted:
            run_planted(given.directory)
        else:
            run(given)


if __name__ == "__main__":
    main()
