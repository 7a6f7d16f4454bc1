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
from typing import TYPE_CHECKING

from broker_cy.commands import COMPLETE_VARIABLE, PROGRAM
from broker_cy.core.argument_parser import Parser, UsageError

if TYPE_CHECKING:
    from broker_cy.shards.companions import Companion

# Objects created during the start live as long as the process, so the garbage collector can skip them. Objects of the
# request path have no reference cycles, so full collections can be rare: one for each 60 million objects that stay. The
# younger generations have 5,000 and 20,000 objects, which are scanned in 1 ms and 4 ms: members that join stay.
GC_THRESHOLDS = (5_000, 3, 3_000)

# The width of help text outside a terminal.
COLUMNS = 80

# The programs of --with, and their modules.
COMPANIONS = {"registry": "broker_registry"}

START_EXAMPLES = """\
examples:
  broker-cy start                                        listen on 127.0.0.1:9092, keep data under ./data
  broker-cy start --listener 127.0.0.1:0                 listen on a free port, which is printed
  broker-cy start --config server.properties             use an existing Kafka configuration
  broker-cy start --data-dir /srv/events --set log.segment.bytes=268435456
  broker-cy start --shards 4                             four brokers for four cores, on the ports 9092 to 9095
  broker-cy start --with registry                        a schema registry on 127.0.0.1:8081 beside the broker
  broker-cy start --with registry=schema-registry.properties
"""


class _Help(argparse.RawDescriptionHelpFormatter):
    """argparse asks shutil for the width of the terminal whenever an option is added. shutil loads two compression
    libraries, which take 0.5 MB in a broker that does not use them.
    """

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=_columns() - 2)


class _Version(argparse.Action):
    """Loads the library of TLS only for `--version`."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from broker_cy.core.tls_version import version_text

        print(version_text())
        parser.exit()


def _columns() -> int:
    """The width of the terminal, as shutil.get_terminal_size finds it."""
    given = os.environ.get("COLUMNS", "")
    if given.isdecimal() and int(given):
        return int(given)
    try:
        return os.get_terminal_size().columns or COLUMNS
    except OSError:
        return COLUMNS


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    top = Parser(prog=PROGRAM, description="A Kafka-wire-compatible event broker.", formatter_class=_Help)
    top.add_argument(
        "--version", action=_Version, nargs=0, help="show the version of this program and of OpenSSL, and exit"
    )
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=Parser)
    start = commands.add_parser(
        "start",
        help="run a broker in the foreground",
        epilog=START_EXAMPLES,
        formatter_class=_Help,
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
        help="set a broker setting; may be repeated; ${env:NAME} and ${file:PATH:KEY} stand for values from elsewhere",
    )
    start.add_argument("--hints", action="store_true", help="when ready, print the command that opens the console")
    start.add_argument("--json", action="store_true", dest="as_json", help="print the ready line and errors as JSON")
    start.add_argument(
        "--shards",
        type=int,
        default=1,
        metavar="N",
        help="run N brokers, one for each core that is to serve clients, under one parent process; 1 by default",
    )
    start.add_argument(
        "--with",
        default="",
        metavar="NAME[=FILE],...",
        dest="companions",
        help="programs to run beside the broker, which are started again when they end, each with the settings of its "
        f"FILE: {', '.join(COMPANIONS)}",
    )
    # The parent starts each shard with its number.
    start.add_argument("--shard", type=int, help=argparse.SUPPRESS)
    return top


def start(argv: Sequence[str]) -> int:
    """Run a broker until it is stopped, or the command "storage", and return the exit code. `argv` begins with one of
    the two.
    """
    if argv[0] == "storage":
        from broker_cy.storage_tool import command as storage_tool

        return storage_tool.run(argv[1:])
    try:
        arguments = parser().parse_args(argv)
    except UsageError as error:
        return _refuse(error, as_json="--json" in argv)
    # Set before the modules are imported: nearly all their objects live forever, and each collection would scan them.
    gc.set_threshold(*GC_THRESHOLDS)
    from broker_cy.config import ConfigError
    from broker_cy.server.ready_line import ReadyLine, StartError

    given = (arguments.config, arguments.data_dir, arguments.listener, arguments.settings)
    ready = ReadyLine(arguments.hints, arguments.as_json)
    try:
        companions = _companions(arguments.companions) if arguments.companions and arguments.shard is None else []
        if arguments.shards != 1 and arguments.shard is None:
            from broker_cy.shards.start import run as run_shards

            return run_shards(*given, arguments.shards, ready, companions)
        from broker_cy.main import run

        shard = None if arguments.shard is None else (arguments.shard, arguments.shards)
        return run(*given, ready, shard, companions)
    except ConfigError as error:
        _report(str(error), as_json=arguments.as_json, is_invalid=True)
        return 2
    except StartError as error:
        _report(str(error), as_json=arguments.as_json)
        return 1


def _companions(text: str) -> list[Companion]:
    """Return the programs of --with. The kernel ends them with this process. Raises ConfigError."""
    from broker_cy.config import ConfigError
    from broker_cy.launch.processes import die_with_parent
    from broker_cy.shards.companions import Companion

    found: dict[str, Companion] = {}
    for each in text.split(","):
        name, _, file = each.strip().partition("=")
        if name not in COMPANIONS:
            raise ConfigError(f"--with {each}: unknown program {name!r}; known: {', '.join(COMPANIONS)}")
        if name in found:
            raise ConfigError(f"--with {text}: {name} is named twice")
        if file and not os.access(file, os.R_OK):
            raise ConfigError(f"--with {each}: cannot read {file}")
        command = [sys.executable, "-m", COMPANIONS[name], *([file] if file else [])]
        found[name] = Companion(name, die_with_parent(command))
    return list(found.values())


def _refuse(error: UsageError, *, as_json: bool) -> int:
    """Report a wrong option, and return the exit code."""
    if as_json:
        _report(error.reason, as_json=True, is_invalid=True)
    else:
        print(f"{error.usage}{PROGRAM}: {error.reason}", file=sys.stderr)
    return 2


def _report(reason: str, *, as_json: bool, is_invalid: bool = False) -> None:
    # Imported here, because a broker that starts does not need the client.
    from broker_cy.client.errors import ClientError, Failure
    from broker_cy.client.program import print_error

    print_error(PROGRAM, ClientError(Failure.INVALID if is_invalid else Failure.REFUSED, reason), as_json=as_json)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code of the process."""
    given = list(sys.argv[1:] if argv is None else argv)
    if given[:1] in (["start"], ["storage"]) and COMPLETE_VARIABLE not in os.environ:
        return start(given)
    from broker_cy.commands import app

    return app.run(given, start)


if __name__ == "__main__":
    sys.exit(main())
