"""The options of each kind of users: its keys in a scenario, their defaults, and the operations that it measures.

`UserSpec.options` has every option of its kind, under the name given here, with the default if the scenario does not
set it. A duration is kept in seconds, whatever unit the scenario uses; options whose names end in `_ms` are named after
Kafka's own settings and are whole milliseconds.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bench.spec import units
from broker_cy.client import toml_values

COUNT_MAX = 100_000
# Users of a share-consumer entry: each has a thread of this program and those of a client of librdkafka.
SHARE_CONSUMERS_MAX = 500
# Keys of an entry that only some kinds have; the others (kind, name, count, rate) belong to all.
PRODUCING = ("engine", "acks", "codec", "idempotent", "records", "payload", "keys")
_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")
_DAY_S = 24 * 3600.0
_HOUR_MS = 3_600_000


@dataclass(frozen=True)
class Option:
    """One key of a kind: `parse` raises a ValueError that names the value and the allowed ones."""

    name: str
    type: str
    default: Any
    allowed: str
    help: str
    parse: Callable[[Any], Any]


@dataclass(frozen=True)
class Kind:
    """One kind of users. `rate` says in words what a rate counts; `scheduled` are the names of these operations."""

    name: str
    help: str
    rate: str
    operations: tuple[str, ...]  # the names of its figures
    scheduled: tuple[str, ...]
    fields: tuple[str, ...] = ()  # of PRODUCING
    options: tuple[Option, ...] = ()


def name_of(value: Any) -> str:
    """Parse a name that Kafka allows for topics. Raises ValueError."""
    if not isinstance(value, str) or not _NAME.fullmatch(value) or value in (".", ".."):
        raise ValueError(f"{value!r} is not a name (allowed: 1 to 249 of A-Z a-z 0-9 . _ -, not . or ..)")
    return value


def _whole(name: str, default: int, least: int, most: int, text: str) -> Option:
    return Option(name, "whole number", default, f"{least} to {most}", text, toml_values.integer(least, most))


def _share(name: str, default: float, text: str) -> Option:
    return Option(name, "share", default, "0 to 1", text, toml_values.number(0, 1))


def _duration(name: str, default_s: float, least_s: float, text: str) -> Option:
    return Option(name, "duration", default_s, f"{least_s:g} s to 24 h", text, units.duration(least_s, _DAY_S))


def _size(name: str, default: int, most: int, text: str) -> Option:
    return Option(name, "size", default, f"1 B to {most} B", text, units.size(1, most))


def _flag(name: str, text: str) -> Option:
    return Option(name, "boolean", False, "true, false", text, toml_values.boolean)


def _choice(name: str, names: tuple[str, ...], text: str) -> Option:
    return Option(name, "choice", names[0], ", ".join(names), text, toml_values.one_of(*names))


def _name(name: str, default: str, text: str) -> Option:
    return Option(name, "name", default, "a name", text, name_of)


def _choices(name: str, names: tuple[str, ...], default: tuple[str, ...], text: str) -> Option:
    def parse(value: Any) -> list[str]:
        if not isinstance(value, list) or not value:
            raise ValueError(f"{value!r} is not a list (allowed: one or more of {', '.join(names)})")
        for each in value:
            toml_values.one_of(*names)(each)
        return list(value)

    return Option(name, "list", list(default), ", ".join(names), text, parse)


_FETCHING = (
    _whole("max_wait_ms", 500, 0, 60_000, "how long the broker holds a Fetch without records (fetch.max.wait.ms)"),
    _size("max_bytes", 1 << 20, 64 << 20, "bytes of one Fetch response (fetch.max.bytes)"),
    _choice("isolation", ("read_uncommitted", "read_committed"), "isolation.level"),
)
_FROM = _choice("from", ("latest", "earliest"), "where reading starts without a committed offset (auto.offset.reset)")
_MEMBERSHIP = (
    _whole("session_timeout_ms", 10_000, 100, _HOUR_MS, "session.timeout.ms"),
    _whole("heartbeat_interval_ms", 3_000, 10, _HOUR_MS, "heartbeat.interval.ms; below session_timeout_ms"),
    _whole("rebalance_timeout_ms", 60_000, 100, _HOUR_MS, "how long the group waits for a member that rejoins"),
)
_MEMBER_OPERATIONS = (
    "JoinGroup",
    "SyncGroup",
    "OffsetFetch",
    "Heartbeat",
    "LeaveGroup",
    "Rebalance",
    "Fetch",
    "EndToEnd",
)
_GROUP_OPERATIONS = (*_MEMBER_OPERATIONS, "OffsetCommit")
_EITHER_PROTOCOL = (*_GROUP_OPERATIONS, "ConsumerGroupHeartbeat")

ADMIN_OPERATIONS = (
    "create-topic",
    "describe-topic",
    "delete-topic",
    "create-partitions",
    "alter-config",
    "describe-config",
    "list-groups",
    "describe-cluster",
    "list-offsets",
)
_ADMIN_APIS = (
    "CreateTopics",
    "Metadata",
    "DeleteTopics",
    "CreatePartitions",
    "IncrementalAlterConfigs",
    "DescribeConfigs",
    "ListGroups",
    "DescribeCluster",
    "ListOffsets",
)
# These act on a topic that the same entry created.
ON_OWN_TOPICS = ("describe-topic", "delete-topic", "create-partitions", "alter-config", "describe-config")

# Options of the producing kinds, by engine.
ENGINE_OPTIONS: dict[str, tuple[Option, ...]] = {
    "gevent": (),
    "raw": (
        _whole("connections", 4, 1, 1_000, "connections of each user"),
        _whole("in_flight", 5, 1, 1_000, "without a rate: requests in flight on each connection"),
    ),
    "librdkafka": (
        _whole("in_flight", 1_000, 1, 100_000, "without a rate: operations of each user without a delivery report"),
        _whole("linger_ms", 5, 0, 900_000, "linger.ms"),
        _whole("batch_bytes", 1_000_000, 1, 100_000_000, "batch.size"),
    ),
}

_PRODUCER = Kind(
    "producer",
    "writes to the topic of the run",
    "requests, each of `records` records",
    ("Produce",),
    ("Produce",),
    PRODUCING,
)

KINDS: dict[str, Kind] = {
    each.name: each
    for each in (
        _PRODUCER,
        Kind(
            "hot-key",
            "a producer whose keys follow Zipf's law, so that a few partitions get most records",
            _PRODUCER.rate,
            _PRODUCER.operations,
            _PRODUCER.scheduled,
            PRODUCING,
        ),
        Kind(
            "consumer",
            "reads the topic without a group: the partitions are distributed over the users of the entry, and each has "
            "several readers if the entry has more users than partitions",
            "Fetch requests",
            ("Fetch", "EndToEnd"),
            ("Fetch",),
            options=(
                *_FETCHING,
                _FROM,
                _flag("repeat", "whether a user that reached the end of a partition reads it again from its start"),
            ),
        ),
        Kind(
            "slow-consumer",
            "a member of a group that processes records slowly, so that the lag grows and, beyond "
            "max_poll_interval_ms, it leaves the group as Kafka's own client does",
            "polls, each of at most max_poll_records records",
            _GROUP_OPERATIONS,
            ("Fetch",),
            options=(
                _name("group", "broker-load-slow", "group.id"),
                _whole("records_per_second", 0, 0, 10_000_000, "records that each user processes in a second; 0: all"),
                _whole("delay_ms", 0, 0, _HOUR_MS, "time that a user needs for the records of each poll"),
                _whole("max_poll_records", 500, 1, 100_000, "records of a poll (max.poll.records)"),
                _whole("max_poll_interval_ms", 300_000, 100, 24 * _HOUR_MS, "max.poll.interval.ms"),
                *_MEMBERSHIP,
                *_FETCHING,
                _FROM,
            ),
        ),
        Kind(
            "group-member",
            "a member of a group (of the classic or the consumer protocol), which can leave, be killed or pause, and "
            "come back",
            "polls",
            _EITHER_PROTOCOL,
            ("Fetch",),
            options=(
                _name("group", "broker-load", "group.id; with several groups, followed by -0, -1, ..."),
                _whole("groups", 1, 1, 10_000, "groups to which the users of the entry belong in turn"),
                _flag("static", "whether members have a group.instance.id (KIP-345)"),
                _choice(
                    "protocol",
                    ("classic", "consumer"),
                    "group.protocol; the broker sets the timeouts and the assignor of consumer (KIP-848)",
                ),
                _choice("assignor", ("range", "roundrobin"), "partition.assignment.strategy"),
                *_MEMBERSHIP,
                _choice(
                    "churn",
                    ("none", "leave", "kill", "pause"),
                    "the disturbance of members: leave with LeaveGroup, close the connection without LeaveGroup, or "
                    "stop answering for pause_for",
                ),
                _duration("churn_every", 10.0, 0.1, "mean time between two such events in each group, exponential"),
                _duration("rejoin_after", 1.0, 0.0, "how long a member that left or was killed stays away"),
                _duration("pause_for", 15.0, 0.1, "how long a paused member neither polls nor sends heartbeats"),
                _duration("commit_every", 5.0, 0.1, "how often a member commits its offsets"),
                *_FETCHING,
                _FROM,
            ),
        ),
        Kind(
            "share-consumer",
            "a member of a share group (librdkafka's share consumer), which accepts, releases or rejects each record",
            "polls, each of at most max_poll_records records",
            ("ShareFetch", "ShareAcknowledge", "EndToEnd"),
            ("ShareFetch",),
            options=(
                _name("group", "broker-load-share", "group.id"),
                _share("release_share", 0.0, "share of the records that are released, and delivered again"),
                _share("reject_share", 0.0, "share of the records that are rejected, and not delivered again"),
                _whole("max_wait_ms", 500, 0, 60_000, "how long a poll waits for records"),
                _whole("max_poll_records", 500, 1, 100_000, "records of a poll (max.poll.records)"),
                _choice("isolation", ("read_uncommitted", "read_committed"), "share.isolation.level of the group"),
                _choice("from", ("latest", "earliest"), "share.auto.offset.reset of the group"),
            ),
        ),
        Kind(
            "transactional-copier",
            "reads records of the run's topic (read_committed) as a member of a group, and writes them to another "
            "topic in transactions with its offsets; needs producers in the same scenario",
            "transactions",
            (
                "Transaction",
                "Produce",
                "InitProducerId",
                "AddPartitionsToTxn",
                "AddOffsetsToTxn",
                "TxnOffsetCommit",
                "EndTxn",
                *_MEMBER_OPERATIONS,
            ),
            ("Transaction",),
            ("codec",),
            (
                _name("target", "broker-load-copies", "topic of the copies; created and deleted like the run's topic"),
                _whole("target_partitions", 4, 1, 10_000, "its partitions"),
                _name("group", "broker-load-copiers", "group.id"),
                _name("transactional_id", "broker-load", "beginning of transactional.id; the user's number follows"),
                _whole("records_per_transaction", 100, 1, 100_000, "records of a transaction at most"),
                _share("abort_share", 0.0, "share of the transactions that are aborted, and copied again"),
                _whole("transaction_timeout_ms", 60_000, 1_000, 900_000, "transaction.timeout.ms"),
                *_MEMBERSHIP,
                *_FETCHING[:2],
            ),
        ),
        Kind(
            "admin-churn",
            "creates, changes and deletes topics of its own",
            "admin operations",
            _ADMIN_APIS,
            _ADMIN_APIS,
            options=(
                _choices(
                    "operations", ADMIN_OPERATIONS, ADMIN_OPERATIONS[:3], "performed at random, with equal shares"
                ),
                _name("prefix", "broker-load-churn", "beginning of the topics' names; a number follows"),
                _whole("topics", 20, 1, 10_000, "topics of a user at one time, at most; all are deleted at the end"),
                _whole("partitions", 1, 1, 1_000, "partitions of a new topic"),
            ),
        ),
        Kind(
            "connection-storm",
            "opens connections, and closes them again",
            "connections that are opened",
            ("Connect", "ApiVersions", "Metadata"),
            ("Connect",),
            options=(
                _whole("connections", 1, 1, 100_000, "connections of a user that are open at one time, at most"),
                _duration("hold", 1.0, 0.0, "how long a connection stays open"),
                _choice("request", ("api-versions", "metadata", "none"), "the request on each new connection"),
            ),
        ),
        Kind(
            "probe",
            "writes a record to each partition in turn and waits until it is read",
            "records",
            ("Probe", "Produce", "Fetch"),
            ("Probe",),
            ("acks", "payload"),
            (_whole("partitions", 0, 0, 10_000, "partitions that are probed, from 0 on; 0: all"),),
        ),
    )
}


def kinds_with(key: str) -> list[str]:
    """Return the kinds that have this key, for errors."""
    return [kind.name for kind in KINDS.values() if key in kind.fields or key in (each.name for each in kind.options)]


def options_of(kind: Kind, engine: str) -> tuple[Option, ...]:
    """Return the options of an entry of this kind and engine."""
    return kind.options + (ENGINE_OPTIONS[engine] if "engine" in kind.fields else ())


def engines_with(key: str) -> list[str]:
    """Return the engines that have an option."""
    return [name for name, options in ENGINE_OPTIONS.items() if any(each.name == key for each in options)]


def defaults_of(kind: str, engine: str = "gevent") -> dict[str, Any]:
    """Return the values of options that a scenario does not set."""
    return {each.name: each.default for each in options_of(KINDS[kind], engine)}
