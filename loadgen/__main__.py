"""`broker-load`, also as `python -m loadgen`: checks that the libraries are installed, then runs loadgen.cli."""

from __future__ import annotations

import sys

from broker_cy.core import extras

# Modules of the extra `loadgen` (requirements/loadgen.in); if they can be imported, it is installed.
LIBRARIES = ("gevent", "hdrh", "locust", "numpy")


def main() -> int:
    """Run the command line; returns the exit code: extras.EXIT_MISSING if the extra `loadgen` is not installed."""
    return extras.run("broker-load", "loadgen", LIBRARIES, _run)


def _run() -> int:
    from loadgen import cli

    cli.main()
    return 0


if __name__ == "__main__":
    sys.exit(main())
