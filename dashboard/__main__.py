"""`broker-dash`, also as `python -m dashboard`: checks that the libraries are installed, then runs dashboard.cli."""

from __future__ import annotations

import sys

from broker_cy.core import extras

# Modules of the extra `dashboard` (requirements/http.in and dashboard.in); if they can be imported, it is installed.
LIBRARIES = ("argon2", "authlib", "dash", "fastapi", "httpx", "joserfc", "orjson", "starlette", "uvicorn", "websockets")


def main() -> int:
    """Run the command line; returns the exit code: extras.EXIT_MISSING if the extra `dashboard` is not installed."""
    return extras.run("broker-dash", "dashboard", LIBRARIES, _run)


def _run() -> int:
    from dashboard import cli

    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
