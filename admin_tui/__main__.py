"""`broker-tui`, also as `python -m admin_tui`: checks that the libraries are installed, then runs admin_tui.cli."""

from __future__ import annotations

import sys

from broker_cy.core import extras

# Modules of the extra `tui` (requirements/tui.in); if they can be imported, it is installed.
LIBRARIES = ("textual",)


def main() -> int:
    """Run the command line; returns the exit code: extras.EXIT_MISSING if the extra `tui` is not installed."""
    return extras.run("broker-tui", "tui", LIBRARIES, _run)


def _run() -> int:
    from admin_tui import cli

    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
