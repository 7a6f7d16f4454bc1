"""Log directories of brokers: their free space, the sizes of their replicas (DescribeLogDirs), and moving replicas
between the directories of a broker (AlterReplicaLogDirs, KIP-113).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Final

from broker_cy.admin.caller import Brokers, Caller, Outcome, every_broker
from broker_cy.admin.metadata import Metadata, TopicPartition
from broker_cy.client.deadline import Deadline
from broker_cy.client.errors import ClientError, Problem, problem_of, refused
from broker_cy.client.pool import Peer
from broker_cy.client.turns import Turns
from broker_cy.core.classes import NamedTuple, dataclass
from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages

# Replicas in one AlterReplicaLogDirs request.
REPLICAS_MAX: Final = 1_000
# Retriable in Kafka, but a disk that failed, or a replica that is not there, will hardly come back within the call.
_FINAL: Final = (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.REPLICA_NOT_AVAILABLE)


class BrokerReplica(NamedTuple):
    """The replica of a partition on a broker."""

    broker_id: int
    partition: TopicPartition

    def __str__(self) -> str:
        return f"{self.partition} on broker {self.broker_id}"


class ReplicaOnDisk(NamedTuple):
    """A replica in a log directory. `offset_lag`: how far it is behind; `is_future`: being moved here."""

    topic: str
    partition: int
    size_bytes: int
    offset_lag: int
    is_future: bool


@dataclass(frozen=True, slots=True)
class LogDir:
    """A log directory. `error` is the name of Kafka's error code, empty without one; the sizes of the volume are
    None if the broker is too old to report them (before version 4).
    """

    broker_id: int
    path: str
    error: str
    total_bytes: int | None
    usable_bytes: int | None
    is_cordoned: bool
    replicas: tuple[ReplicaOnDisk, ...]

    @property
    def is_offline(self) -> bool:
        """Whether its disk failed, or is missing."""
        return self.error == ErrorCode.KAFKA_STORAGE_ERROR.name

    @property
    def accepts(self) -> bool:
        """Whether replicas may be moved here."""
        return not self.error and not self.is_cordoned

    @property
    def size_bytes(self) -> int:
        """The total size of the replicas."""
        return sum(replica.size_bytes for replica in self.replicas)


def entry_of(path: str, paths: Iterable[str], entries: Iterable[str]) -> str:
    """The entry of a broker's `log.dirs` for one of its directories; `path` itself if that is not certain. Brokers
    answer with the absolute `paths`, in the order of the entries, but a setting that names directories
    (`cordoned.log.dirs`) wants the words of `log.dirs`.
    """
    for each, entry in zip(paths, dict.fromkeys(entries), strict=False):
        if each == path and _may_be(each, entry):
            return entry
    return path


def _may_be(path: str, entry: str) -> bool:
    """Whether the directory at `path` may have this entry, wherever the broker runs."""
    path, entry = os.path.normpath(path), os.path.normpath(entry)
    if os.path.isabs(entry):
        return path == entry
    parts = entry.split(os.sep)
    known = parts[parts.count(os.pardir) :]
    return path.split(os.sep)[-len(known) :] == known


class LogDirCalls:
    """`client.log_dirs`."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def describe(
        self, brokers: Iterable[int] | None = None, *, topics: Iterable[str] | None = None
    ) -> Outcome[int, tuple[LogDir, ...]]:
        """The directories of each broker (None: of all), with the replicas of `topics` (None: of all)."""
        deadline = self._caller.deadline()
        only = None if topics is None else list(dict.fromkeys(topics))
        infos, failed = ({}, {}) if only is None else await self._caller.metadata.topics(only, deadline)
        for error in failed.values():
            raise error
        wanted = None
        if only is not None:
            wanted = [
                messages.DescribeLogDirsRequest.DescribableLogDirTopic(
                    topic=name, partitions=[part.partition for part in info.partitions]
                )
                for name, info in infos.items()
            ]

        async def send(peer: Peer, keys: list[int], deadline: Deadline) -> dict[int, tuple[LogDir, ...] | Problem]:
            request = messages.DescribeLogDirsRequest(topics=wanted)
            answer, _ = await self._caller.pool.ask(peer, request, messages.DescribeLogDirsResponse, deadline)
            (key,) = keys
            problem = problem_of(answer.error_code)
            return {key: problem or tuple([await _log_dir(key, each) for each in answer.results])}

        return await self._caller.spread(
            await every_broker(self._caller, deadline) if brokers is None else brokers,
            Brokers(self._caller.metadata),
            send,
            api="DescribeLogDirs",
            name=lambda key: f"broker {key}",
            chunk=1,
            deadline=deadline,
        )

    async def alter(self, wanted: Mapping[BrokerReplica, str]) -> Outcome[BrokerReplica, bool]:
        """Move replicas to the directories at these paths; the path of the directory that it is in lets a replica stay
        there, and ends its move. REPLICA_NOT_AVAILABLE: the broker has no such replica yet, and will create it there.
        """

        async def send(
            peer: Peer, keys: list[BrokerReplica], deadline: Deadline
        ) -> dict[BrokerReplica, bool | Problem | ClientError]:
            (broker_id,) = {key.broker_id for key in keys}
            by_path: dict[str, dict[str, list[int]]] = {}
            for key in keys:
                topic, number = key.partition
                by_path.setdefault(wanted[key], {}).setdefault(topic, []).append(number)
            kind = messages.AlterReplicaLogDirsRequest
            request = kind(
                dirs=[
                    kind.AlterReplicaLogDir(
                        path=path,
                        topics=[
                            kind.AlterReplicaLogDirTopic(name=name, partitions=parts) for name, parts in topics.items()
                        ],
                    )
                    for path, topics in by_path.items()
                ]
            )
            answer, _ = await self._caller.pool.ask(peer, request, messages.AlterReplicaLogDirsResponse, deadline)
            found: dict[BrokerReplica, bool | Problem | ClientError] = {}
            for each in answer.results:
                for part in each.partitions:
                    key = BrokerReplica(broker_id, TopicPartition(each.topic_name, part.partition_index))
                    problem = problem_of(part.error_code)
                    is_final = problem is not None and problem.code in _FINAL
                    found[key] = (
                        True
                        if problem is None
                        else refused(problem, peer.name, "AlterReplicaLogDirs", str(key))
                        if is_final
                        else problem
                    )
            return found

        outcome: Outcome[BrokerReplica, bool | ClientError] = await self._caller.spread(
            wanted,
            _ReplicaBrokers(self._caller.metadata),
            send,
            api="AlterReplicaLogDirs",
            name=str,
            chunk=REPLICAS_MAX,
        )
        failed = {key: each for key, each in outcome.found.items() if isinstance(each, ClientError)}
        return Outcome({key: True for key in outcome.found if key not in failed}, {**outcome.failed, **failed})


class _ReplicaBrokers:
    """Locates replicas: their brokers answer for them."""

    def __init__(self, metadata: Metadata) -> None:
        self._brokers = Brokers(metadata)

    async def locate(
        self, keys: list[BrokerReplica], deadline: Deadline
    ) -> tuple[dict[Peer, list[BrokerReplica]], dict[BrokerReplica, ClientError]]:
        ids = list(dict.fromkeys(key.broker_id for key in keys))
        places, failed = await self._brokers.locate(ids, deadline)
        return (
            {peer: [key for key in keys if key.broker_id in found] for peer, found in places.items()},
            {key: failed[key.broker_id] for key in keys if key.broker_id in failed},
        )

    def forget(self, keys: Iterable[BrokerReplica]) -> None:
        """Nothing is kept: a broker is looked up each time."""


async def _log_dir(broker_id: int, each: messages.DescribeLogDirsResponse.DescribeLogDirsResult) -> LogDir:
    problem = problem_of(each.error_code)
    replicas: list[ReplicaOnDisk] = []
    turns = Turns()
    for topic in each.topics:
        replicas += [
            ReplicaOnDisk(topic.name, part.partition_index, part.partition_size, part.offset_lag, part.is_future_key)
            for part in topic.partitions
        ]
        await turns.pause()
    # By topic and partition: its first two fields.
    replicas.sort()
    return LogDir(
        broker_id,
        each.log_dir,
        "" if problem is None else problem.code.name,
        None if each.total_bytes < 0 else each.total_bytes,
        None if each.usable_bytes < 0 else each.usable_bytes,
        each.is_cordoned,
        tuple(replicas),
    )
