"""`broker-analytics`, also as `python -m spark_analytics`: checks that the libraries are installed, then runs it."""

from __future__ import annotations

import sys

from broker_cy.core import extras

# Modules of the extra `analytics` (requirements/analytics.in); if they can be imported, it is installed.
LIBRARIES = ("orjson", "pandas", "pyarrow", "pyspark")


def main() -> int:
    """Run the command line; it ends the process with its exit code. Returns 1 if the extra is not installed."""
    if (hint := extras.hint("broker-analytics", "analytics", LIBRARIES)) is not None:
        print(hint, file=sys.stderr)
        return 1
    from spark_analytics import cli

    cli.main()
    return 0


if __name__ == "__main__":
    sys.exit(main())
