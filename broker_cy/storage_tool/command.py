"""`broker-cy storage`: format the directories of a node before its first start, show the formatted ones, and make ids.
It has the options, output and exit codes of Kafka's kafka-storage.sh, and writes the same files.

A node that was never formatted formats itself when it starts, as the only voter of a new cluster. The nodes of a larger
cluster are formatted, so that they have one cluster id and agree on the first voters.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial

from broker_cy.config import BrokerConfig, ConfigError, places, shard_plan, sources
from broker_cy.core import uuid as uuids
from broker_cy.core.argument_parser import Parser, UsageError
from broker_cy.core.randomness import MACHINE_RANDOMNESS
from broker_cy.metadata import releases
from broker_cy.storage import shard_directories
from broker_cy.storage.data_directory import DataDirectoryError
from broker_cy.storage_tool import feature_tables, formatting, info, settings_check

EXAMPLES = """\
examples:
  broker-cy storage random-uuid                              an id for a new cluster
  broker-cy storage format -c server.properties -t ID        format the directories of one of its nodes
  broker-cy storage info -c server.properties                show what they contain
  broker-cy storage check -c server.properties               show which settings are refused or have no effect
  broker-cy storage version-mapping -r 4.2                   the levels of all features in Kafka 4.2
  broker-cy storage feature-dependencies -f kraft.version=1  what that level needs
  broker-cy storage format -c server.properties -t ID --shards 4
                                                             the same for a node of four shards
"""


def parser() -> argparse.ArgumentParser:
    """The parser of the command line."""
    top = Parser(
        prog="broker-cy storage",
        description="Check the settings of a node, format its directories, or show what they contain.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=Parser)
    common = Parser(add_help=False)
    common.add_argument(
        "--json",
        action="store_true",
        dest="as_json",
        help="print errors as JSON, one per line; the output stays that of kafka-storage.sh",
    )
    show = commands.add_parser("info", parents=[common], help="show what the log directories contain")
    show.add_argument("--config", "-c", required=True, metavar="FILE", help="the server.properties of the node")
    check = commands.add_parser(
        "check", parents=[common], help="show which settings of a file are refused or have no effect"
    )
    check.add_argument("--config", "-c", required=True, metavar="FILE", help="the server.properties of the node")
    form = commands.add_parser("format", parents=[common], help="format the log directories of a node")
    form.add_argument("--config", "-c", required=True, metavar="FILE", help="the server.properties of the node")
    form.add_argument("--cluster-id", "-t", required=True, metavar="ID", help="the id of the cluster: see random-uuid")
    form.add_argument(
        "--add-scram",
        "-S",
        action="append",
        default=[],
        metavar="CREDENTIAL",
        help="a SCRAM credential for the metadata log, such as SCRAM-SHA-256=[name=alice,password=SECRET] or "
        "SCRAM-SHA-512=[name=alice,iterations=8192,salt=BASE64,saltedpassword=BASE64]",
    )
    form.add_argument("--ignore-formatted", "-g", action="store_true", help="leave formatted directories as they are")
    form.add_argument("--release-version", "-r", metavar="VERSION", help="the release whose metadata.version is used")
    form.add_argument(
        "--feature", "-f", action="append", default=[], metavar="NAME=LEVEL", help="the level of a feature"
    )
    voters = form.add_mutually_exclusive_group()
    voters.add_argument("--standalone", "-s", action="store_true", help="this controller is the first and only voter")
    voters.add_argument(
        "--no-initial-controllers", "-N", action="store_true", help="this controller will be added to the voters later"
    )
    voters.add_argument(
        "--initial-controllers", "-I", metavar="VOTERS", help="the first voters: ID@HOST:PORT:DIRECTORY-ID,..."
    )
    for each in (show, check, form):
        each.add_argument(
            "--shards", type=int, default=1, metavar="N", help="the node has N shards (broker-cy start --shards N)"
        )
    mapping = commands.add_parser(
        "version-mapping", parents=[common], help="show the levels of all features in a release of Kafka"
    )
    mapping.add_argument("--release-version", "-r", metavar="VERSION", help="the release; the newest one by default")
    needs = commands.add_parser(
        "feature-dependencies", parents=[common], help="show which other features a level of a feature needs"
    )
    needs.add_argument(
        "--feature", "-f", action="append", required=True, metavar="NAME=LEVEL", help="the feature; may be repeated"
    )
    commands.add_parser("random-uuid", parents=[common], help="print a new id, for a cluster or a directory")
    return top


def run(argv: Sequence[str]) -> int:
    """Run the command, and return the exit code: as Kafka's, 1 for a wrong option, too."""
    try:
        arguments = parser().parse_args(argv)
    except UsageError as error:
        _report(error.reason if "--json" in argv else f"{error.usage}{error}", as_json="--json" in argv)
        return 1
    as_json = arguments.as_json
    report = partial(_report, as_json=as_json)
    try:
        if arguments.command == "random-uuid":
            print(uuids.to_text(MACHINE_RANDOMNESS.kafka_uuid()))
            return 0
        if arguments.command == "version-mapping":
            feature_tables.print_levels(arguments.release_version or releases.STABLE[-1])
            return 0
        if arguments.command == "feature-dependencies":
            for text in arguments.feature:
                feature_tables.print_dependencies(text)
            return 0
        if arguments.command == "check":
            return settings_check.check(arguments.config, arguments.shards, report)
        configs = _configs(arguments.config, arguments.shards)
        if arguments.command == "info":
            return max(info.show(config, report if as_json else None) for config in configs)
        if not arguments.ignore_formatted:
            for config in configs:
                formatting.refuse_formatted(config)
        for config in configs:
            formatting.format_node(config, arguments)
        return 0
    except (formatting.FormatError, ConfigError, DataDirectoryError, feature_tables.NoSuchFeature) as error:
        report(str(error))
    except OSError as error:
        report(f"{error.filename or ''}: {error.strerror}".lstrip(": "))
    return 1


def _report(reason: str, *, as_json: bool) -> None:
    """Print an error: a line of JSON as all programs, or the text as kafka-storage.sh."""
    if not as_json:
        print(reason, file=sys.stderr)
        return
    from broker_cy.client.errors import ClientError, Failure
    from broker_cy.client.program import print_error

    print_error("broker-cy", ClientError(Failure.INVALID, reason), as_json=True)


def _configs(file: str, shards: int) -> list[BrokerConfig]:
    """The configuration of the node, or of each of its shards. Raises ConfigError, DataDirectoryError."""
    shard_plan.check_count(shards)
    properties, written = sources(file), places(file, ())
    if shards == 1:
        return [BrokerConfig.from_properties(properties, written)]
    plan = shard_plan.make(properties, shards, written)
    shard_directories.check(plan)
    return [BrokerConfig.from_properties(each, written) for each in plan.shards]
