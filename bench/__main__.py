"""`broker-bench`, also as `python -m bench`: checks that the libraries are installed, then runs bench.cli."""

from __future__ import annotations

import sys

from broker_cy.core import extras

# Modules of the extra `bench` (requirements/bench.in); if they can be imported, it is installed.
LIBRARIES = ("confluent_kafka", "cryptography", "hdrh", "numpy", "plotly")


def main() -> int:
    """Run the command line and return the process's exit code: 1 if the extra `bench` is not installed."""
    if (hint := extras.hint("broker-bench", "bench", LIBRARIES)) is not None:
        print(hint, file=sys.stderr)
        return 1
    from bench import cli

    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
