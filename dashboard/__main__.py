"""`broker-dash`, also as `python -m dashboard`: checks that the libraries are installed, then runs dashboard.cli."""

from __future__ import annotations

import sys

from broker_cy.core import extras

# Modules of the extra `dashboard` (requirements/dashboard.in); if they can be imported, it is installed.
LIBRARIES = ("argon2", "authlib", "dash", "fastapi", "httpx", "joserfc", "orjson", "uvicorn", "websockets")


def main() -> int:
    """Run the command line; the process's exit code, 1 where the extra `dashboard` is not installed."""
    if (hint := extras.hint("broker-dash", "dashboard", LIBRARIES)) is not None:
        print(hint, file=sys.stderr)
        return 1
    from dashboard import cli

    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
