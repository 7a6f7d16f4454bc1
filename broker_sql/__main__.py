"""`broker-sql`, and `python -m broker_sql`."""

from __future__ import annotations

import sys

from broker_cy.core import extras

LIBRARIES = ("sqlglot", "prompt_toolkit", "rich", "httpx")


def main() -> int:
    """Run the command line; returns the exit code: extras.EXIT_MISSING if the extra `sql` is not installed."""
    return extras.run("broker-sql", "sql", LIBRARIES, _run)


def _run() -> int:
    from broker_sql import cli

    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
