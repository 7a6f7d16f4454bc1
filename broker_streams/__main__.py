"""`broker-streams`, and `python -m broker_streams`."""

from __future__ import annotations

import sys

from broker_streams import cli


def main() -> int:
    """Run the command line; returns the exit code."""
    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
