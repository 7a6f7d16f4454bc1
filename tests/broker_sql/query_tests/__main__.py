"""python -m tests.broker_sql.query_tests [--rest] [--file NAME] [--case NAME] [--only STAGE] [--failures FILE]"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import time
import uuid
from collections.abc import Iterable
from pathlib import Path

from tests.broker_sql.query_tests import cases, rest_cases
from tests.broker_sql.query_tests.outcome import Outcome, report
from tests.broker_sql.query_tests.running import run


def main() -> int:
    parser = argparse.ArgumentParser(description="Runs ksqlDB's public query tests on this project's SQL.")
    parser.add_argument("--rest", action="store_true", help="the cases of the REST API, with processes of all programs")
    parser.add_argument("--file", action="append", help="a file of cases, by its name; several are allowed")
    parser.add_argument("--case", help="only cases with this text in their names")
    parser.add_argument("--only", choices=["parse", "plan"], help="the last stage of cases")
    parser.add_argument("--failures", type=Path, help="a file for the names of failed cases, with stage and reason")
    parser.add_argument("--verbose", action="store_true", help="print each failed case")
    given = parser.parse_args()
    folder = cases.folder(rest_cases.FOLDER) if given.rest else cases.folder()
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
    outcomes = _rest(files, given.case) if given.rest else _run(files, given.case, given.only)
    failed = [each for each in outcomes if not each.passed]
    if given.failures is not None:
        given.failures.write_text("".join(_line(each) for each in failed))
    if given.verbose:
        print("".join(_line(each, whole=True) for each in failed))
    print(report(outcomes))
    print(f"{time.monotonic() - start_s:.1f} s")
    return 1 if failed else 0


def _run(files: Iterable[Path], wanted: str | None, only: str | None) -> list[Outcome]:
    return [
        run(case, only=only) for path in files for case in cases.load(path) if wanted is None or wanted in case.name
    ]


def _rest(files: Iterable[Path], wanted: str | None) -> list[Outcome]:
    """Show each case: they take minutes."""
    from tests.broker_sql.query_tests import rest_running

    outcomes = []
    with tempfile.TemporaryDirectory() as directory, rest_running.rig(Path(directory)) as at:
        for path in files:
            for case in rest_cases.load(path, uuid.uuid4().hex[:8]):
                if wanted is None or wanted in case.name:
                    outcomes.append(rest_running.run(case, at))
                    print(f"{outcomes[-1].stage:8} {case.name}", flush=True)
    return outcomes


def _line(outcome: Outcome, *, whole: bool = False) -> str:
    reason = outcome.reason if whole else " ".join(outcome.reason.split())[:300]
    return f"{outcome.name}\t{outcome.stage}\t{reason}\n"


if __name__ == "__main__":
    sys.exit(main())
