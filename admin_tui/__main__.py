"""`broker-tui`, also as `python -m admin_tui`: the command line of admin_tui.cli, once its libraries are known to be
there.
"""

from __future__ import annotations

import sys

from broker_cy.core import extras

# Modules of the extra `tui`, by which it is known to be installed (requirements/tui.in).
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
