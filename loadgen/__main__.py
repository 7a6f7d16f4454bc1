"""`broker-load`, also as `python -m loadgen`: checks that the libraries are installed, then runs loadgen.cli."""

from __future__ import annotations

import sys

from broker_cy.core import extras

# Modules of the extra `loadgen` (requirements/loadgen.in); if they can be imported, it is installed.
LIBRARIES = ("gevent", "hdrh", "locust", "numpy", "plotly")


def main() -> int:
    """Run the command line; it ends the process with its exit code. Returns 1 if the extra is not installed."""
    if (hint := extras.hint("broker-load", "loadgen", LIBRARIES)) is not None:
        print(hint, file=sys.stderr)
        return 1
    from loadgen import cli

    cli.main()
    return 0


if __name__ == "__main__":
    sys.exit(main())
