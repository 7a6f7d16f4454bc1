"""Applications of stream processing that run on Spark, as their drivers announce them.

A driver is no member of the application's group, so the group does not tell that it runs. Each driver writes a record
when it begins, and one when it ends, into partition 1 of the topic __pipeline_progress; partition 0 has the records of
batches (broker_streams/hosts/spark/progress.py). The topic is compacted, so an application has one record.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, field
from typing import Any, Final

from broker_cy.admin.client import AdminClient
from broker_cy.admin.group_values import (
    CLASSIC,
    GroupDescription,
    GroupMember,
    InternalTopic,
    StreamsFacts,
    Subtopology,
    Task,
    Tasks,
    Topology,
)
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.offsets import Isolation
from broker_cy.admin.records import Start
from broker_cy.client.errors import ClientError
from broker_cy.core.classes import dataclass
from broker_cy.core.errors import ErrorCode
from broker_cy.wire.records import Record

TOPIC: Final = "__pipeline_progress"
DRIVERS: Final = TopicPartition(TOPIC, 1)
RUNS, STOPPED, FAILED = "runs", "stopped", "failed"
MEMBER: Final = "driver"
# The first application on Spark makes the topic. Without one, a reader needs no access to it.
_NONE: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.TOPIC_AUTHORIZATION_FAILED)


@dataclass(frozen=True, slots=True)
class PartOfDriver:
    """A sub-topology with the number of its tasks. Topics have the names of the cluster."""

    number: str
    tasks: int
    sources: tuple[str, ...] = ()
    repartition_sources: tuple[str, ...] = ()
    repartition_sinks: tuple[str, ...] = ()
    changelogs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DriverRecord:
    """A driver as it said last. `state` is runs, stopped or failed; a driver that was killed still says that it runs.
    `process` tells two drivers apart. `endpoint` is application.server, None without one. Times are in ms since 1970.
    """

    application: str
    process: str
    state: str
    time_ms: int
    begin_ms: int
    host: str = ""
    endpoint: str | None = None
    version: str = ""
    error: str = ""
    parts: tuple[PartOfDriver, ...] = field(default_factory=tuple)

    @property
    def runs(self) -> bool:
        return self.state == RUNS

    def record(self) -> Record:
        value = json.dumps(asdict(self), separators=(",", ":"), ensure_ascii=False).encode()
        return Record(key=self.application.encode(), value=value, timestamp=self.time_ms)

    @staticmethod
    def of(data: bytes) -> DriverRecord:
        """Raises ValueError: no record of a driver."""
        try:
            found: dict[str, Any] = json.loads(data)
            known = {name: value for name, value in found.items() if name in DriverRecord.__slots__}
            parts = tuple(
                PartOfDriver(
                    each["number"],
                    each["tasks"],
                    *(
                        tuple(each.get(name, ()))
                        for name in ("sources", "repartition_sources", "repartition_sinks", "changelogs")
                    ),
                )
                for each in found.get("parts", ())
            )
            return DriverRecord(**{**known, "parts": parts})
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{TOPIC} has a record that is none of a driver: {error!r}") from None

    def described(self, group: GroupDescription | None) -> GroupDescription:
        """The group of the application, with the driver as its member. None: nothing was committed yet."""
        tasks = Tasks(tuple(Task(part.number, number) for part in self.parts for number in range(part.tasks)))
        facts = StreamsFacts(self.process, 0, self.endpoint, {}, tasks, tasks)
        member = GroupMember(MEMBER, None, self.application, self.host, None, -1, (), None, (), None, streams=facts)
        topology = Topology(
            0,
            tuple(
                Subtopology(
                    part.number,
                    part.sources,
                    _internal(part.repartition_sources),
                    part.repartition_sinks,
                    _internal(part.changelogs),
                )
                for part in self.parts
            ),
        )
        return GroupDescription(
            self.application,
            CLASSIC if group is None else group.group_type,
            "Dead" if group is None else group.state,
            "" if group is None else group.protocol_type,
            "",
            -1 if group is None else group.coordinator_id,
            -1 if group is None else group.group_epoch,
            -1 if group is None else group.assignment_epoch,
            (member,) if self.runs else (),
            topology,
        )


def _internal(names: tuple[str, ...]) -> tuple[InternalTopic, ...]:
    return tuple(InternalTopic(name, 0) for name in names)


async def drivers(client: AdminClient) -> Mapping[str, DriverRecord]:
    """The drivers by application. Raises ClientError. Damaged records are passed over."""
    found: dict[str, DriverRecord] = {}
    try:
        if len(await client.records.partitions(TOPIC)) <= DRIVERS.partition:
            return found
        spans = await client.records.spans([DRIVERS], Start.earliest(), isolation=Isolation.READ_COMMITTED)
        span = spans[DRIVERS]
        if span.start >= span.end:
            return found
        reader = client.records.reader({DRIVERS: span.start}, ends={DRIVERS: span.end})
        async with reader:
            async for chunk in reader:
                for record in chunk.records:
                    if record.key is None:
                        continue
                    name = record.key.decode(errors="replace")
                    found.pop(name, None)
                    if record.value is not None:
                        try:
                            found[name] = DriverRecord.of(record.value)
                        except ValueError:
                            continue
    except ClientError as error:
        if error.code not in _NONE:
            raise
        return {}
    return found
