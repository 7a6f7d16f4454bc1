"""`broker-registry`, and `python -m broker_registry`."""

from __future__ import annotations

import sys

from broker_cy.core import extras

# The libraries of the extra without which nothing works; others are loaded with the first schema of their type.
LIBRARIES = ("fastavro", "httptools", "jsonschema_rs", "orjson", "starlette", "uvicorn")


def main() -> int:
    """Run the command line; returns the exit code: extras.EXIT_MISSING if the extra `registry` is not installed."""
    return extras.run("broker-registry", "registry", LIBRARIES, _run)


def _run() -> int:
    from broker_registry import cli

    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
