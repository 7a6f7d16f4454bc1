"""`broker-streams`, and `python -m broker_streams`."""

from __future__ import annotations

import sys

from broker_cy.core import extras

LIBRARIES = ("lmdb", "yaml")
# Libraries of `run --host spark`.
OTHERS = {"pyspark": "spark", "pyarrow": "spark"}


def main() -> int:
    """Run the command line; returns the exit code: extras.EXIT_MISSING if the extra `streams` is not installed."""
    return extras.run("broker-streams", "streams", LIBRARIES, _run, others=OTHERS)


def _run() -> int:
    from broker_streams import cli

    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
