"""`broker-bench`, also as `python -m bench`: checks that the libraries are installed, then runs bench.cli."""

from __future__ import annotations

import sys

from broker_cy.core import extras

# Modules of the extra `bench` (requirements/bench.in); if they can be imported, it is installed.
LIBRARIES = ("confluent_kafka", "cryptography", "hdrh", "numpy")


def main() -> int:
    """Run the command line; returns the exit code: extras.EXIT_MISSING if the extra `bench` is not installed."""
    return extras.run("broker-bench", "bench", LIBRARIES, _run)


def _run() -> int:
    from bench import cli

    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
