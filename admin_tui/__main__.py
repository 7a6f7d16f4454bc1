"""`broker-tui`, also as `python -m admin_tui`: checks that the libraries are installed, then runs admin_tui.cli."""

from __future__ import annotations

import sys

from broker_cy.core import extras

# Modules of the extra `tui` (requirements/tui.in); if they can be imported, it is installed.
LIBRARIES = ("textual",)


def main() -> int:
    """Run the command line; the process's exit code, 1 where the extra `tui` is not installed."""
    if (hint := extras.hint("broker-tui", "tui", LIBRARIES)) is not None:
        print(hint, file=sys.stderr)
        return 1
    from admin_tui import cli

    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
