"""Count instructions of the hot operations and compare them with the recorded ones (see docs/bench.md).

Exit code 0: no operation is worse; 1: one is worse by more than 3 % (15 % with --where-recorded); 2: the
measurement failed; 3: no counts are recorded to compare with on this build (0 with --where-recorded).
"""

import argparse
import contextlib
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from bench.check import build, compare, operations, profile
from bench.check.compare import Expected, ExpectedError
from bench.check.counted import Counted, Counts, count
from bench.targets.brokers import TargetError
from bench.wire.protocol import ProtocolError

FINE, REGRESSED, FAILED, NOTHING_TO_COMPARE = 0, 1, 2, 3
EXPECTED = Path(__file__).with_name("expected.json")
TOP = 10
BROKERS = 3
RECORD = "make bench-check ARGS=--record"


def arguments(argv: list[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.check", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--record", action="store_true", help="record the counts, for later runs to compare with")
    parser.add_argument("--top", action="store_true", help=f"show the {TOP} heaviest functions of each operation")
    parser.add_argument(
        "--where-recorded",
        action="store_true",
        help="for tests: only print the difference if the counts are from another build, and tolerate 15 %%",
    )
    parser.add_argument("--expected", type=Path, default=EXPECTED, metavar="FILE", help="recorded counts")
    parser.add_argument(
        "--set", action="append", default=[], type=_setting, metavar="NAME=VALUE", help="a setting of the broker"
    )
    return parser.parse_args(argv)


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r}: NAME=VALUE is expected")
    return name, value


def measure(settings: Mapping[str, str]) -> dict[str, Counts]:
    """Count every operation in one broker with these settings. Raises TargetError, ProtocolError, ProfileError and
    OSError.
    """
    root = Path(tempfile.mkdtemp(prefix="bench-check-"))
    try:
        with contextlib.ExitStack() as stack:
            broker = Counted(root / "data", settings)
            stack.enter_context(broker.running())
            prepared = operations.prepare(broker.address, broker.pid, stack)
            broker.instrument()
            found = {}
            for name, operation in prepared.items():
                found[name] = count(broker, operation, operations.REQUESTS[name], partial(show, name))
            return found
    finally:
        shutil.rmtree(root, ignore_errors=True)


def measure_until_fine(settings: Mapping[str, str], recorded: Expected | None, tolerance: float) -> dict[str, Counts]:
    """Count every operation, in a new broker while one is worse, BROKERS times at most; of each, the smallest count
    stays, because a disturbance only adds instructions. Raises as `measure`.
    """
    found = measure(settings)
    for _ in range(BROKERS - 1):
        now = {name: counts.per_request for name, counts in found.items()}
        if compare.WORSE not in {
            row.verdict for row in compare.rows(recorded.operations if recorded else {}, now, tolerance)
        }:
            break
        again = measure(settings)
        found = {name: min(counts, again[name], key=lambda each: each.per_request) for name, counts in found.items()}
    return found


def show(name: str, instructions: int) -> None:
    """Print one line of progress."""
    print(f"{name}: {instructions:,}", file=sys.stderr, flush=True)


def not_recorded(expected: Expected | None, versions: dict[str, str]) -> list[str]:
    """Return the reasons why counts of this build cannot be compared with the recorded ones; empty if they can."""
    if expected is None:
        return ["no recorded counts"]
    return build.differences(expected.versions, versions, build.MACHINE)


def verdict(
    expected: Expected | None, now: Expected, path: Path, tolerance: float = compare.TOLERANCE
) -> tuple[str, int]:
    """Return the table of counts with its notes, and the exit code."""
    lines = compare.rows(expected.operations if expected else {}, now.operations, tolerance)
    if others := not_recorded(expected, now.versions):
        lines = compare.rows({}, now.operations)
        text = f"NOTHING TO COMPARE WITH on this build: {', '.join(others)}\n"
        text += f"To compare, first record the counts of a revision that you trust with `{RECORD}` ({path})."
        return f"{compare.table(lines)}\n\n{text}", NOTHING_TO_COMPARE
    assert expected is not None
    notes = [compare.table(lines), ""]
    if chosen := build.differences(expected.versions, now.versions, build.TOLD):
        notes.append(f"Versions that differ from the recorded ones: {', '.join(chosen)}.")
    verdicts = {row.verdict for row in lines}
    if compare.BETTER in verdicts:
        notes.append(f"Better by more than {tolerance:.0%}: record the new counts with `{RECORD}`.")
    if compare.UNKNOWN in verdicts:
        notes.append(f"An operation is not recorded yet: record it with `{RECORD}`.")
    if compare.WORSE in verdicts:
        notes.append(f"WORSE by more than {tolerance:.0%}: `make bench-check ARGS=--top` shows the functions.")
        return "\n".join(notes), REGRESSED
    return "\n".join(notes).rstrip(), NOTHING_TO_COMPARE if compare.UNKNOWN in verdicts else FINE


def main(argv: list[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    options = arguments(argv)
    try:
        recorded = compare.load(options.expected)
        versions = build.versions()
        if options.where_recorded and (others := not_recorded(recorded, versions)):
            print(f"bench-check: instructions are not counted on this build: {', '.join(others)}")
            return FINE
        tolerance = compare.TOLERANCE_ON_ANY_MACHINE if options.where_recorded else compare.TOLERANCE
        counted = measure_until_fine(dict(options.set), recorded, tolerance)
    except subprocess.CalledProcessError as error:
        print(f"bench-check: {error}: {(error.stderr or '').strip()}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        return FAILED
    except (ExpectedError, profile.ProfileError, ProtocolError, TargetError, OSError) as error:
        print(f"bench-check: {error}", file=sys.stderr)
        return FAILED
    print("User-space instructions of the broker's process per request (the kernel's are not counted)")
    if options.top:
        for name, counts in counted.items():
            header = ("share", "per request", "function", "object")
            rows = [header, *profile.heaviest(counts.profile, counts.requests, TOP)]
            print(f"\n{name}\n{compare.columns(rows, 'rrll')}")
        print()
    now = Expected(versions, {name: counts.per_request for name, counts in counted.items()})
    text, code = verdict(recorded, now, options.expected, tolerance)
    print(text)
    print("; ".join(f"{key} {value}" for key, value in versions.items()))
    print("spread of the windows: " + ", ".join(f"{name} {counts.spread:.2%}" for name, counts in counted.items()))
    if options.record:
        compare.save(options.expected, now)
        print(f"recorded in {options.expected}")
        return FINE
    return code


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(FAILED))  # so that a terminated run leaves no broker and no data
    sys.exit(main())
