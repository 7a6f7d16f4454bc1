"""`broker-bench`: see docs/bench.md. (Modes land one by one.)"""

import argparse
import sys
from pathlib import Path

from bench.spec import target, workload
from bench.spec.toml_file import SpecError


def main(argv: list[str] | None = None) -> int:
    """Check workload and target files; returns the exit code."""
    parser = argparse.ArgumentParser(prog="broker-bench", description="Benchmark a Kafka-compatible broker.")
    modes = parser.add_subparsers(dest="mode", required=True)
    check = modes.add_parser("check", help="read workload and target files and say what is wrong with them")
    check.add_argument("--workload", type=Path, action="append", default=[])
    check.add_argument("--target", type=Path, action="append", default=[])
    options = parser.parse_args(argv)
    try:
        for path in options.workload:
            print(workload.load(path))
        for path in options.target:
            print(target.load(path))
    except SpecError as error:
        print(f"broker-bench: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
