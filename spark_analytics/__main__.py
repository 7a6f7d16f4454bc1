"""`broker-analytics`, also as `python -m spark_analytics`: checks that the libraries are installed, then runs it."""

from __future__ import annotations

import sys

from broker_cy.core import extras

# Modules of the extra `analytics` (requirements/analytics.in); if they can be imported, it is installed.
LIBRARIES = ("orjson", "pandas", "pyarrow", "pyspark")


def main() -> int:
    """Run the command line; returns the exit code: extras.EXIT_MISSING if the extra `analytics` is not installed."""
    return extras.run("broker-analytics", "analytics", LIBRARIES, _run)


def _run() -> int:
    from spark_analytics import cli

    cli.main()
    return 0


if __name__ == "__main__":
    sys.exit(main())
