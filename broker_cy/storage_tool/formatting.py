"""`broker-cy storage format`: the first files of a node's directories, which are those that Kafka's tool writes."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from broker_cy.config import BrokerConfig
from broker_cy.core import shard_ids
from broker_cy.core import uuid as uuids
from broker_cy.core.classes import NamedTuple
from broker_cy.core.randomness import MACHINE_RANDOMNESS
from broker_cy.metadata import features, releases, snapshot
from broker_cy.metadata.records import VersionedRecord
from broker_cy.metadata.snapshot import KRaftState, SnapshotId
from broker_cy.quorum import wire_log
from broker_cy.quorum.voters import Endpoint, ReplicaKey, Voter, VoterSet
from broker_cy.storage.atomic import write_atomically
from broker_cy.storage.data_directory import META_PROPERTIES, DataDirectory, is_formatted, make_log_directory
from broker_cy.storage.open_directories import Content, content_of
from broker_cy.storage_tool import scram_option
from broker_cy.wire import messages

# The snapshot that contains the first voters: it ends before the first record.
FIRST_SNAPSHOT: Final = SnapshotId(0, 0)
_VOTER = re.compile(r"(?P<id>\d{1,10})@(?P<host>\[[^\]]*\]|[^:@]+):(?P<port>\d{1,5}):(?P<directory>[A-Za-z0-9_-]{22})")


class FormatError(Exception):
    """The directories cannot be formatted; the message says why."""


def directories(config: BrokerConfig) -> list[str]:
    """The absolute paths, that of the metadata log first."""
    paths = [os.path.abspath(path) for path in config.log_dirs]
    if config["metadata.log.dir"]:
        metadata = os.path.abspath(config["metadata.log.dir"])
        paths = [metadata, *(path for path in paths if path != metadata)]
    return paths


class Formatting(NamedTuple):
    """The planned contents of a node's files. `voters` is None with static voters, or without voters yet."""

    cluster_id: str
    directory_id: UUID
    level: int
    records: list[VersionedRecord]
    voters: VoterSet | None
    what: str


def refuse_formatted(config: BrokerConfig) -> None:
    """Raise FormatError if a directory of the node is formatted."""
    formatted = [path for path in directories(config) if is_formatted(path)]
    if formatted:
        raise FormatError(
            f"Log directory {formatted[0]} is already formatted. Use --ignore-formatted to ignore this directory and "
            "format the others."
        )


def format_node(config: BrokerConfig, arguments: argparse.Namespace) -> None:
    """Format the directories of a node as the parsed options say. Raises FormatError, DataDirectoryError, OSError."""
    paths = directories(config)
    plan = _plan(config, arguments)
    contents = {path: content_of(path) for path in paths}
    formatted = [path for path in paths if contents[path] is Content.FORMATTED]
    for path in formatted:
        _check(path, config, plan)
    unreadable = [path for path in paths if isinstance(contents[path], OSError)]
    for path in unreadable:
        print(f"I/O error trying to read log directory {path}. Ignoring...")
    if len(unreadable) == len(paths):
        raise FormatError("No available log directories to format.")
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
    """Raise FormatError if a formatted directory is that of another node."""
    directory = DataDirectory(path)
    directory.read_meta()
    if directory.cluster_id != plan.cluster_id:
        raise FormatError(
            f"Invalid cluster.id in: {path}/{META_PROPERTIES}. Expected {plan.cluster_id}, but read "
            f"{directory.cluster_id}"
        )
    if directory.node_id != config.node_id:
        raise FormatError(
            f"Stored node id {directory.node_id} doesn't match previous node id {config.node_id} in "
            f"{path}/{META_PROPERTIES}. If you moved your data, make sure your configured node id matches. If you "
            "intend to create a new node, you should remove all data in your data directories."
        )


def _plan(config: BrokerConfig, arguments: argparse.Namespace) -> Formatting:
    """Raises FormatError."""
    if arguments.shards > 1 and not config.is_controller and config.node_id >= shard_ids.STEP:
        # The arguments about voters apply to shard 0.
        arguments = argparse.Namespace(
            **{**vars(arguments), "standalone": False, "initial_controllers": None, "no_initial_controllers": True}
        )
    is_dynamic = arguments.standalone or arguments.initial_controllers or arguments.no_initial_controllers
    if config.quorum_voters and (arguments.standalone or arguments.initial_controllers):
        raise FormatError(
            "You cannot specify controller.quorum.voters and format the node with --initial-controllers or "
            "--standalone. If you want to use dynamic quorum, please remove controller.quorum.voters and specify "
            "controller.quorum.bootstrap.servers instead."
        )
    for name in ("standalone", "initial_controllers"):
        if getattr(arguments, name) and not config.is_controller:
            raise FormatError(f"You can only use --{name.replace('_', '-')} on a controller.")
    if config.is_controller and not config.quorum_voters and not is_dynamic:
        raise FormatError(
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
        raise FormatError(
            "--standalone needs the address under which other nodes will reach this controller: name host and port of "
            "a controller listener in listeners or advertised.listeners"
        )
    return tuple(Endpoint(one.name, one.host, one.port) for one in found)


def _voters(text: str, listener: str) -> VoterSet:
    voters = []
    for part in text.split(","):
        found = _VOTER.fullmatch(part.strip())
        if found is None or not 0 < int(found["port"]) < 65_536:
            raise FormatError(
                f"--initial-controllers: {part!r} is not ID@HOST:PORT:DIRECTORY-ID, such as 1@host:9093:<uuid>"
            )
        key = ReplicaKey(int(found["id"]), uuids.from_text(found["directory"]))
        voters.append(Voter(key, (Endpoint(listener, found["host"].strip("[]"), int(found["port"])),)))
    try:
        return VoterSet(voters)
    except ValueError as error:
        raise FormatError(f"--initial-controllers: {error}") from error


def _metadata_version(arguments: argparse.Namespace) -> tuple[int, list[str]]:
    """Its level, and the other features: a feature may name it instead of a release."""
    prefix = f"{features.METADATA_VERSION}="
    named = [text for text in arguments.feature if text.startswith(prefix)]
    if not named:
        return _level(arguments.release_version), arguments.feature
    if arguments.release_version is not None:
        raise FormatError("Use --release-version instead of --feature metadata.version=X to avoid ambiguity.")
    number = named[-1].removeprefix(prefix)
    if not number.isdecimal() or not features.MV_MIN <= int(number) <= features.MV_LATEST:
        raise FormatError(
            f"--feature {named[-1]}: this broker supports levels {features.MV_MIN} to {features.MV_LATEST} of "
            "metadata.version"
        )
    return int(number), [text for text in arguments.feature if text not in named]


def _level(release: str | None) -> int:
    try:
        return features.MV_LATEST if release is None else releases.level_of(release)
    except ValueError as error:
        raise FormatError(str(error)) from None


def _records(level: int, texts: Sequence[str], *, is_dynamic: bool) -> list[VersionedRecord]:
    levels = releases.of_new_cluster(level)
    for text in texts:
        name, equals, number = text.partition("=")
        if name not in features.SUPPORTED:
            raise FormatError(
                f"Unsupported feature: {name}. Supported features are: {', '.join(sorted(features.SUPPORTED))}"
            )
        low, high = features.SUPPORTED[name]
        if not equals or not number.isdecimal() or not low <= int(number) <= high:
            raise FormatError(f"--feature {text}: this broker supports levels {low} to {high} of {name}")
        if name == features.KRAFT_VERSION:
            if int(number) != int(is_dynamic):
                raise FormatError(
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
        raise FormatError(
            f"SCRAM is only supported in metadata.version {releases.name_of(features.MV_SCRAM)} or later."
        )
    try:
        return scram_option.records_of(options, MACHINE_RANDOMNESS)
    except scram_option.ScramOptionError as error:
        raise FormatError(str(error)) from None


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
