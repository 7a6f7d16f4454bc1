"""Brokers with several disks: `python -m bench.studies.disks`.

`recovery`: kill -9 of a broker with its log on one disk and on two, until it answers. `death`: producers with default
settings on three nodes, while a disk of one of them dies. `move`: replicas move to the other disk of a broker, beside
producers on a schedule, compared with a synced copy of the same files; and the p99 of the producers with the move,
compared with that without it.

`--dirs A,B` are directories on two disks; by default both are on the disk of temporary files, which then is each of the
two.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
from pathlib import Path

from bench.studies.disk_parts import Disks, deaths, moves, recoveries
from bench.studies.goals import Figures, Goals, check, measure, parser

PROGRAM = "bench.studies.disks"
GB = 10**9
RECOVERY_GB, PARTITIONS = 20.0, 2_000
DEATHS, RATE, SECONDS = 3, 5_000, 20.0
MOVE_GB, MOVED, PAIRS = 4.0, 2, 3
GOALS = Goals(
    at_least={"move_to_copy": 0.8},
    at_most={
        "two_disks_recovery_s": 0.35,
        "death_errors": 0.0,
        "death_longest_ms": 1_000.0,
        "move_p99_to_alone": 1.1,
    },
)


def figures_of(part: str, given: argparse.Namespace, disks: Disks) -> Figures:
    """Raises TargetError, ProcessError."""
    if part == "recovery":
        return recoveries(disks, int(given.recovery_gb * GB), given.partitions, given.pairs)
    if part == "death":
        return deaths(disks, given.rate, given.seconds, given.deaths)
    return moves(disks, int(given.move_gb * GB), given.moved, given.rate, given.pairs)


def main() -> int:
    """Measure and print the figures; returns exit code 3 if --strict was given and a goal was missed."""
    parts = ("recovery", "death", "move")
    made = parser(PROGRAM, __doc__, parts)
    shown = " (default: %(default)s)"
    made.add_argument("--dirs", metavar="A,B", help="directories on two disks (default: one temporary directory)")
    made.add_argument("--pairs", type=int, default=PAIRS, help=f"recoveries of each kind, and moves{shown}")
    made.add_argument("--recovery-gb", type=float, default=RECOVERY_GB, help=f"log to recover{shown}")
    made.add_argument("--partitions", type=int, default=PARTITIONS, help=f"partitions of that log{shown}")
    made.add_argument("--deaths", type=int, default=DEATHS, help=f"disks that die{shown}")
    made.add_argument("--rate", type=int, default=RATE, help=f"requests/s of producers{shown}")
    made.add_argument("--seconds", type=float, default=SECONDS, help=f"time of these producers in `death`{shown}")
    made.add_argument("--move-gb", type=float, default=MOVE_GB, help=f"log that is moved{shown}")
    made.add_argument("--moved", type=int, default=MOVED, help=f"replicas that are moved, two at a time{shown}")
    given = made.parse_args()
    check(made, given, parts, ("pairs", "partitions", "deaths", "rate", "moved"))
    given_dirs = given.dirs.split(",") if given.dirs else [tempfile.gettempdir()] * 2
    if len(given_dirs) != 2:
        made.error(f"--dirs {given.dirs}: two directories are expected")
    with contextlib.ExitStack() as stack:
        made_dirs = [stack.enter_context(tempfile.TemporaryDirectory(prefix="disks-", dir=each)) for each in given_dirs]
        disks = Disks(*map(Path, made_dirs))
        return measure(PROGRAM, given, GOALS, lambda part: figures_of(part, given, disks))


if __name__ == "__main__":
    sys.exit(main())
