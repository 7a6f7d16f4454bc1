"""python -m tests.broker_sql.query_tests [--file NAME] [--case NAME] [--only parse] [--failures FILE] [--verbose]"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from pathlib import Path

from tests.broker_sql.query_tests import cases
from tests.broker_sql.query_tests.outcome import Outcome, report
from tests.broker_sql.query_tests.running import run


def main() -> int:
    parser = argparse.ArgumentParser(description="Runs ksqlDB's public query tests on this project's SQL.")
    parser.add_argument("--file", action="append", help="a file of cases, by its name; several are allowed")
    parser.add_argument("--case", help="only cases with this text in their names")
    parser.add_argument("--only", choices=["parse", "plan"], help="the last stage of cases")
    parser.add_argument("--failures", type=Path, help="a file for the names of failed cases, with stage and reason")
    parser.add_argument("--verbose", action="store_true", help="print each failed case")
    given = parser.parse_args()
    folder = cases.folder()
    if folder is None:
        print(cases.REASON, file=sys.stderr)
        return 2
    wanted = {name.removesuffix(".json") for name in given.file or ()}
    files = [path for path in sorted(folder.glob("*.json")) if not wanted or path.stem in wanted]
    unknown = wanted - {path.stem for path in files}
    if unknown:
        print(f"no file of cases: {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    # Records that queries skip are part of many cases.
    logging.getLogger("broker_streams").setLevel(logging.CRITICAL)
    start_s = time.monotonic()
    outcomes = [
        run(case, only=given.only)
        for path in files
        for case in cases.load(path)
        if given.case is None or given.case in case.name
    ]
    failed = [each for each in outcomes if not each.passed]
    if given.failures is not None:
        given.failures.write_text("".join(_line(each) for each in failed))
    if given.verbose:
        print("".join(_line(each, whole=True) for each in failed))
    print(report(outcomes))
    print(f"{time.monotonic() - start_s:.1f} s")
    return 1 if failed else 0


def _line(outcome: Outcome, *, whole: bool = False) -> str:
    reason = outcome.reason if whole else " ".join(outcome.reason.split())[:300]
    return f"{outcome.name}\t{outcome.stage}\t{reason}\n"


if __name__ == "__main__":
    sys.exit(main())
