"""`broker-cy storage`: format the directories of a node before its first start, show the formatted ones, and make ids.
It has the options, output and exit codes of Kafka's kafka-storage.sh, and writes the same files.

A node that was never formatted formats itself when it starts, as the only voter of a new cluster. The nodes of a larger
cluster are formatted, so that they have one cluster id and agree on the first voters.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from broker_cy.config import BrokerConfig, ConfigError, places, shard_plan, sources
from broker_cy.core import shard_ids
from broker_cy.core import uuid as uuids
from broker_cy.core.argument_parser import Parser, UsageError
from broker_cy.core.classes import NamedTuple
from broker_cy.core.randomness import MACHINE_RANDOMNESS
from broker_cy.metadata import features, releases, snapshot
from broker_cy.metadata.records import VersionedRecord
from broker_cy.metadata.snapshot import KRaftState, SnapshotId
from broker_cy.quorum import wire_log
from broker_cy.quorum.voters import Endpoint, ReplicaKey, Voter, VoterSet
from broker_cy.storage import shard_directories
from broker_cy.storage.atomic import write_atomically
from broker_cy.storage.data_directory import (
    META_PROPERTIES,
    DataDirectory,
    DataDirectoryError,
    is_formatted,
    make_log_directory,
    problem_of,
)
from broker_cy.storage.open_directories import Content, content_of
from broker_cy.storage_tool import feature_tables, scram_option, settings_check
from broker_cy.wire import messages

# The snapshot that contains the first voters: it ends before the first record.
FIRST_SNAPSHOT: Final = SnapshotId(0, 0)
_VOTER = re.compile(r"(?P<id>\d{1,10})@(?P<host>\[[^\]]*\]|[^:@]+):(?P<port>\d{1,5}):(?P<directory>[A-Za-z0-9_-]{22})")


class Refusal(Exception):
    """The command cannot carry out its task; the message says why."""


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
    info = commands.add_parser("info", parents=[common], help="show what the log directories contain")
    info.add_argument("--config", "-c", required=True, metavar="FILE", help="the server.properties of the node")
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
    for each in (info, check, form):
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
            return settings_check.check(
                arguments.config, arguments.shards, lambda problem: _report(problem, as_json=as_json)
            )
        configs = _configs(arguments.config, arguments.shards)
        if arguments.command == "info":
            return max(_info(config, as_json=as_json) for config in configs)
        if not arguments.ignore_formatted:
            for config in configs:
                _refuse_formatted(config)
        for config in configs:
            _format(config, arguments)
        return 0
    except (Refusal, ConfigError, DataDirectoryError, feature_tables.NoSuchFeature) as error:
        _report(str(error), as_json=as_json)
    except OSError as error:
        _report(f"{error.filename or ''}: {error.strerror}".lstrip(": "), as_json=as_json)
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


def _directories(config: BrokerConfig) -> list[str]:
    """The absolute paths, that of the metadata log first."""
    paths = [os.path.abspath(path) for path in config.log_dirs]
    if config["metadata.log.dir"]:
        metadata = os.path.abspath(config["metadata.log.dir"])
        paths = [metadata, *(path for path in paths if path != metadata)]
    return paths


# --- info


def _info(config: BrokerConfig, *, as_json: bool) -> int:
    found: list[str] = []
    problems: list[str] = []
    first: DataDirectory | None = None
    for path in sorted(_directories(config)):
        problem = problem_of(path)
        if problem is None or problem.endswith("formatted."):
            found.append(path)
        if problem is not None:
            problems.append(problem)
            continue
        directory = DataDirectory(path)
        try:
            directory.read_meta()
        except DataDirectoryError as error:
            problems.append(str(error))
            continue
        first = first or directory
        if directory.cluster_id != first.cluster_id:
            problems.append("Mismatched cluster IDs between storage directories.")
        elif directory.node_id != first.node_id:
            problems.append("Mismatched node IDs between storage directories.")
        elif directory.node_id != config.node_id:
            problems.append(f"{path} belongs to node.id {directory.node_id}, and the file names {config.node_id}")
    if found:
        print(_listed("Found log director", found, "y", "ies"))
    if first is not None:
        print(f"Found metadata: {_metadata_of(first)}\n")
    if problems and as_json:
        for problem in problems:
            _report(problem, as_json=True)
    elif problems:
        print(_listed("Found problem", problems, "", "s"))
    return 1 if problems else 0


def _metadata_of(directory: DataDirectory) -> str:
    """The content of meta.properties. Kafka before 3.7 gave directories no id."""
    values = {
        "cluster.id": directory.cluster_id,
        **({} if directory.directory_id == uuids.ZERO else {"directory.id": uuids.to_text(directory.directory_id)}),
        "node.id": directory.node_id,
        "version": 1,
    }
    return f"{{{', '.join(f'{name}={value}' for name, value in values.items())}}}"


def _listed(head: str, lines: Sequence[str], one: str, many: str) -> str:
    return f"{head}{one if len(lines) == 1 else many}:\n" + "".join(f"  {line}\n" for line in lines)


# --- format


class Formatting(NamedTuple):
    """The planned contents of a node's files. `voters` is None with static voters, or without voters yet."""

    cluster_id: str
    directory_id: UUID
    level: int
    records: list[VersionedRecord]
    voters: VoterSet | None
    what: str


def _refuse_formatted(config: BrokerConfig) -> None:
    formatted = [path for path in _directories(config) if is_formatted(path)]
    if formatted:
        raise Refusal(
            f"Log directory {formatted[0]} is already formatted. Use --ignore-formatted to ignore this directory and "
            "format the others."
        )


def _format(config: BrokerConfig, arguments: argparse.Namespace) -> None:
    paths = _directories(config)
    plan = _plan(config, arguments)
    contents = {path: content_of(path) for path in paths}
    formatted = [path for path in paths if contents[path] is Content.FORMATTED]
    for path in formatted:
        _check(path, config, plan)
    unreadable = [path for path in paths if isinstance(contents[path], OSError)]
    for path in unreadable:
        print(f"I/O error trying to read log directory {path}. Ignoring...")
    if len(unreadable) == len(paths):
        raise Refusal("No available log directories to format.")
    if len(formatted) + len(unreadable) == len(paths):
        print("All of the log directories are already formatted.")
        return
    levels = [
        f"{record.message.name}={record.message.feature_level}"
        for record in plan.records
        if isinstance(record.message, messages.FeatureLevelRecord)
    ]
    print(f"Bootstrap metadata: {', '.join(levels)}")
    for number, path in enumerate(paths):
        if path in formatted or path in unreadable:
            continue
        what = plan.what if number == 0 else "data directory"
        print(f"Formatting {what} {path} with metadata.version {releases.name_of(plan.level)}.")
        _write(path, config.node_id, plan, is_metadata=number == 0)


def _check(path: str, config: BrokerConfig, plan: Formatting) -> None:
    """Raise Refusal if a formatted directory is that of another node."""
    directory = DataDirectory(path)
    directory.read_meta()
    if directory.cluster_id != plan.cluster_id:
        raise Refusal(
            f"Invalid cluster.id in: {path}/{META_PROPERTIES}. Expected {plan.cluster_id}, but read "
            f"{directory.cluster_id}"
        )
    if directory.node_id != config.node_id:
        raise Refusal(
            f"Stored node id {directory.node_id} doesn't match previous node id {config.node_id} in "
            f"{path}/{META_PROPERTIES}. If you moved your data, make sure your configured node id matches. If you "
            "intend to create a new node, you should remove all data in your data directories."
        )


def _plan(config: BrokerConfig, arguments: argparse.Namespace) -> Formatting:
    """Raises Refusal."""
    if arguments.shards > 1 and not config.is_controller and config.node_id >= shard_ids.STEP:
        # The arguments about voters apply to shard 0.
        arguments = argparse.Namespace(
            **{**vars(arguments), "standalone": False, "initial_controllers": None, "no_initial_controllers": True}
        )
    is_dynamic = arguments.standalone or arguments.initial_controllers or arguments.no_initial_controllers
    if config.quorum_voters and (arguments.standalone or arguments.initial_controllers):
        raise Refusal(
            "You cannot specify controller.quorum.voters and format the node with --initial-controllers or "
            "--standalone. If you want to use dynamic quorum, please remove controller.quorum.voters and specify "
            "controller.quorum.bootstrap.servers instead."
        )
    for name in ("standalone", "initial_controllers"):
        if getattr(arguments, name) and not config.is_controller:
            raise Refusal(f"You can only use --{name.replace('_', '-')} on a controller.")
    if config.is_controller and not config.quorum_voters and not is_dynamic:
        raise Refusal(
            "Because controller.quorum.voters is not set on this controller, you must specify one of the following: "
            "--standalone, --initial-controllers, or --no-initial-controllers."
        )
    level, texts = _metadata_version(arguments)
    directory_id = MACHINE_RANDOMNESS.kafka_uuid()
    voters: VoterSet | None = None
    what = "metadata directory"
    if arguments.standalone:
        voters = VoterSet([Voter(ReplicaKey(config.node_id, directory_id), _own_endpoints(config))])
    elif arguments.initial_controllers:
        voters = _voters(arguments.initial_controllers, config.network.controller_names[0])
        mine = voters.get(config.node_id)
        directory_id = mine.key.directory_id if mine is not None else directory_id
    if voters is not None:
        is_voter = config.node_id in voters.ids
        what = "dynamic metadata voter directory" if is_voter else "dynamic metadata directory"
    records = _records(level, texts, is_dynamic=bool(is_dynamic) and not config.quorum_voters)
    records += _credentials(level, arguments.add_scram)
    return Formatting(arguments.cluster_id, directory_id, level, records, voters, what)


def _own_endpoints(config: BrokerConfig) -> tuple[Endpoint, ...]:
    found = config.network.advertised_controllers
    unusable = next((one for one in found if not one.host or not one.port or one.host == "0.0.0.0"), None)
    if not found or unusable is not None:
        raise Refusal(
            "--standalone needs the address under which other nodes will reach this controller: name host and port of "
            "a controller listener in listeners or advertised.listeners"
        )
    return tuple(Endpoint(one.name, one.host, one.port) for one in found)


def _voters(text: str, listener: str) -> VoterSet:
    voters = []
    for part in text.split(","):
        found = _VOTER.fullmatch(part.strip())
        if found is None or not 0 < int(found["port"]) < 65_536:
            raise Refusal(
                f"--initial-controllers: {part!r} is not ID@HOST:PORT:DIRECTORY-ID, such as 1@host:9093:<uuid>"
            )
        key = ReplicaKey(int(found["id"]), uuids.from_text(found["directory"]))
        voters.append(Voter(key, (Endpoint(listener, found["host"].strip("[]"), int(found["port"])),)))
    try:
        return VoterSet(voters)
    except ValueError as error:
        raise Refusal(f"--initial-controllers: {error}") from error


def _metadata_version(arguments: argparse.Namespace) -> tuple[int, list[str]]:
    """Its level, and the other features: a feature may name it instead of a release."""
    prefix = f"{features.METADATA_VERSION}="
    named = [text for text in arguments.feature if text.startswith(prefix)]
    if not named:
        return _level(arguments.release_version), arguments.feature
    if arguments.release_version is not None:
        raise Refusal("Use --release-version instead of --feature metadata.version=X to avoid ambiguity.")
    number = named[-1].removeprefix(prefix)
    if not number.isdecimal() or not features.MV_MIN <= int(number) <= features.MV_LATEST:
        raise Refusal(
            f"--feature {named[-1]}: this broker supports levels {features.MV_MIN} to {features.MV_LATEST} of "
            "metadata.version"
        )
    return int(number), [text for text in arguments.feature if text not in named]


def _level(release: str | None) -> int:
    try:
        return features.MV_LATEST if release is None else releases.level_of(release)
    except ValueError as error:
        raise Refusal(str(error)) from None


def _records(level: int, texts: Sequence[str], *, is_dynamic: bool) -> list[VersionedRecord]:
    levels = releases.of_new_cluster(level)
    for text in texts:
        name, equals, number = text.partition("=")
        if name not in features.SUPPORTED:
            raise Refusal(
                f"Unsupported feature: {name}. Supported features are: {', '.join(sorted(features.SUPPORTED))}"
            )
        low, high = features.SUPPORTED[name]
        if not equals or not number.isdecimal() or not low <= int(number) <= high:
            raise Refusal(f"--feature {text}: this broker supports levels {low} to {high} of {name}")
        if name == features.KRAFT_VERSION:
            if int(number) != int(is_dynamic):
                raise Refusal(
                    f"--feature {text}: kraft.version is 1 with --standalone, --initial-controllers or "
                    "--no-initial-controllers, and 0 without: leave it out"
                )
            continue
        levels[name] = int(number)
    first = levels.pop(features.METADATA_VERSION)
    # In the order of Kafka's records.
    return [
        VersionedRecord(messages.FeatureLevelRecord(name=name, feature_level=number))
        for name, number in ((features.METADATA_VERSION, first), *sorted(levels.items()))
        if number > 0
    ]


def _credentials(level: int, options: list[str]) -> list[VersionedRecord]:
    if options and level < features.MV_SCRAM:
        raise Refusal(f"SCRAM is only supported in metadata.version {releases.name_of(features.MV_SCRAM)} or later.")
    try:
        return scram_option.records_of(options, MACHINE_RANDOMNESS)
    except scram_option.ScramOptionError as error:
        raise Refusal(str(error)) from None


def _write(path: str, node_id: int, plan: Formatting, *, is_metadata: bool) -> None:
    """Write the files of one directory; meta.properties is the last one, without which it is not formatted."""
    directory = DataDirectory(path)
    directory.lock()
    try:
        directory.refuse_logs_without_meta()
        # As Kafka's tool does it, in each directory; only that of the metadata directory is read.
        write_atomically(os.path.join(path, snapshot.BOOTSTRAP_NAME), _content(plan.records, None), sync=True)
        if is_metadata and plan.voters is not None:
            log = make_log_directory(path, "__cluster_metadata-0")
            write_atomically(os.path.join(log, FIRST_SNAPSHOT.file_name), _content([], plan.voters), sync=True)
        directory_id = plan.directory_id if is_metadata else MACHINE_RANDOMNESS.kafka_uuid()
        directory.format(plan.cluster_id, node_id, directory_id)
    finally:
        directory.close()


def _content(records: list[VersionedRecord], voters: VoterSet | None) -> bytes:
    kraft = KRaftState(1, wire_log.to_record(voters)) if voters is not None else KRaftState()
    return b"".join(snapshot.write(iter(records), kraft, 0, 0, 0))
