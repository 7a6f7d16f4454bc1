"""The `broker-cy` command: `start`, which runs a broker, and the operators' commands of `broker_cy.commands`.

Only the chosen command's modules are imported: imports count towards the time to the first answer, so that `start`
needs argparse only.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from broker_cy import __version__
from broker_cy.commands import COMPLETE_VARIABLE

START_EXAMPLES = """\
examples:
  broker-cy start                                        127.0.0.1:9092, data under ./data
  broker-cy start --listener 127.0.0.1:0                 a free port, printed when ready
  broker-cy start --config server.properties             an existing Kafka configuration
  broker-cy start --data-dir /srv/events --set log.segment.bytes=268435456
"""


def parser() -> argparse.ArgumentParser:
    """The command line, with its help."""
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
    start.add_argument("--data-dir", metavar="DIR", help="log directory (log.dirs); default ./data")
    start.add_argument("--listener", metavar="HOST:PORT", help="address to listen on; port 0 picks a free one")
    start.add_argument(
        "--set", metavar="NAME=VALUE", action="append", default=[], dest="settings", help="one setting; may be repeated"
    )
    start.add_argument("--hints", action="store_true", help="when ready, print how to open the console")
    return top


def start(argv: Sequence[str]) -> int:
    """Run a broker until it is stopped; the exit code. `argv` begins with "start"."""
    arguments = parser().parse_args(argv)
    from broker_cy.main import StartError, run

    try:
        return run(arguments.config, arguments.data_dir, arguments.listener, arguments.settings, arguments.hints)
    except StartError as error:
        print(f"broker-cy: {error}", file=sys.stderr)
        return 1


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; the process's exit code."""
    given = list(sys.argv[1:] if argv is None else argv)
    if given[:1] == ["start"] and COMPLETE_VARIABLE not in os.environ:
        return start(given)
    from broker_cy.commands import app

    return app.run(given, start)


if __name__ == "__main__":
    sys.exit(main())
