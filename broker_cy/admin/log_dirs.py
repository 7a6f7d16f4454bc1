"""Log directories of brokers: their free space, and the sizes of their replicas (DescribeLogDirs)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from broker_cy.admin.caller import Brokers, Caller, Outcome, every_broker
from broker_cy.client.deadline import Deadline
from broker_cy.client.errors import Problem, problem_of
from broker_cy.client.pool import Peer
from broker_cy.client.turns import Turns
from broker_cy.wire import messages


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
    def size_bytes(self) -> int:
        """The total size of the replicas."""
        return sum(replica.size_bytes for replica in self.replicas)


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
