"""The `broker-cy` command: `start`, which runs a broker, `storage`, which formats its directories, and the operators'
commands of `broker_cy.commands`.

Only the modules of the chosen command are imported, because imports delay the first response; `start` imports only
argparse.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections.abc import Sequence

from broker_cy import __version__
from broker_cy.commands import COMPLETE_VARIABLE

# Objects created during the start live as long as the process, so the garbage collector can skip them. Objects of the
# request path have no reference cycles, so it can run rarely.
GC_THRESHOLDS = (50_000, 20, 50)

START_EXAMPLES = """\
examples:
  broker-cy start                                        listen on 127.0.0.1:9092, keep data under ./data
  broker-cy start --listener 127.0.0.1:0                 listen on a free port, which is printed
  broker-cy start --config server.properties             use an existing Kafka configuration
  broker-cy start --data-dir /srv/events --set log.segment.bytes=268435456
"""


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    top = argparse.ArgumentParser(prog="broker-cy", description="A Kafka-wire-compatible event broker.")
    top.add_argument("--version", action="version", version=f"broker-cy {__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    start = commands.add_parser(
        "start",
        help="run a broker in the foreground",
        epilog=START_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    start.add_argument("--config", metavar="FILE", help="a server.properties file with Kafka's setting names")
    start.add_argument("--data-dir", metavar="DIR", help="log directory (log.dirs); ./data by default")
    start.add_argument("--listener", metavar="HOST:PORT", help="address to listen on; port 0 selects a free port")
    start.add_argument(
        "--set",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        dest="settings",
        help="set a broker setting; may be repeated",
    )
    start.add_argument("--hints", action="store_true", help="when ready, print the command that opens the console")
    return top


def start(argv: Sequence[str]) -> int:
    """Run a broker until it is stopped, or the command "storage", and return the exit code. `argv` begins with one of
    the two.
    """
    if argv[0] == "storage":
        from broker_cy.server import storage_tool

        return storage_tool.run(argv[1:])
    arguments = parser().parse_args(argv)
    # Before the modules are imported: nearly all that they create is there for good, and is looked at again and again.
    gc.set_threshold(*GC_THRESHOLDS)
    from broker_cy.main import StartError, run

    try:
        return run(arguments.config, arguments.data_dir, arguments.listener, arguments.settings, arguments.hints)
    except StartError as error:
        print(f"broker-cy: {error}", file=sys.stderr)
        return 1


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code of the process."""
    given = list(sys.argv[1:] if argv is None else argv)
    if given[:1] in (["start"], ["storage"]) and COMPLETE_VARIABLE not in os.environ:
        return start(given)
    from broker_cy.commands import app

    return app.run(given, start)


if __name__ == "__main__":
    sys.exit(main())
