"""Runs failed tests a second time, alone, if their failure may be due to the timing of another program.

    python tools/run_again.py EXIT_CODE

EXIT_CODE is that of the pytest run before, which has printed the failures. A test is run again if it compares with a
real Apache Kafka, which applies most changes some time after its answer, measures a window of time, or drives a
terminal: on a busy machine these may fail once in thousands of runs. No other test is: one that only sometimes finds a
lost record or a race has found it. With more than RUN_AGAIN_MAX failures nothing is run again.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

FAILED = ".pytest_cache/v/cache/lastfailed"
# Of more than 12,000 tests; a machine that is in trouble breaks dozens.
RUN_AGAIN_MAX = 6
# pytest's exit code for "tests failed"; the others are crashes and wrong arguments.
TESTS_FAILED = 1
MAY_RUN_AGAIN = re.compile(
    r"^tests/(bench|admin_tui|dashboard/browser|documents)/"
    r"|^tests/broker_cy/commands/test_\w+_kafka\.py::"
    r"|^tests/(broker_cy|compat|loadgen)/.*\[.*kafka.*\]$"
)


def refusal(failed: list[str]) -> str | None:
    """Why these tests are not run again; None if they are."""
    if not 1 <= len(failed) <= RUN_AGAIN_MAX:
        return f"{len(failed)} tests failed; at most {RUN_AGAIN_MAX} are run again"
    final = [each for each in failed if not MAY_RUN_AGAIN.search(each)]
    return f"a failure of {final[0]} is final" if final else None


def main(arguments: list[str]) -> int:
    code = int(arguments[0])
    if code != TESTS_FAILED or not os.path.exists(FAILED):
        return code
    with open(FAILED, encoding="utf-8") as file:
        failed = sorted(json.load(file))
    reason = refusal(failed)
    if reason is not None:
        print(f"Not run again: {reason}.")
        return code
    print(f"Running again, alone: {' '.join(failed)}", flush=True)
    return subprocess.run([sys.executable, "-m", "pytest", "-q", *failed], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
