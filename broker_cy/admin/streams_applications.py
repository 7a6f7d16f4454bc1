"""Stream processing applications from outside: what their group says (KIP-1071), their lag, and what their instances
report at application.server (broker_cy/client/streams_status.py).

An application needs no instance that answers: members, tasks and lag come from the brokers. Applications of Kafka
Streams are shown the same way, without the facts of instances. An application on Spark has no members; its driver
stands for them (streams_drivers).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, field
from typing import Any, Final

from broker_cy.admin.client import AdminClient
from broker_cy.admin.group_lag import GroupLag
from broker_cy.admin.group_values import STREAMS, GroupDescription, GroupMember, Task, Topology
from broker_cy.admin.offsets import Isolation
from broker_cy.admin.streams_drivers import FAILED, DriverRecord, drivers
from broker_cy.admin.streams_rows import BatchRow, InputRow, InstanceRow, StoreRow, TaskRow, batch_row
from broker_cy.client.address import parse_address
from broker_cy.client.errors import ClientError, Failure
from broker_cy.client.streams_status import InstanceState, TaskState, ask
from broker_cy.core.classes import dataclass

ASK_S: Final = 3.0
"""The time limit for one instance."""
ASKED_MAX: Final = 200
"""Instances of one application that are asked; of further ones, only the group's facts are shown."""
APPLICATIONS_MAX: Final = 500
ACTIVE, STANDBY, WARMUP = "active", "standby", "warmup"
SPARK = "spark"
SILENT, UNKNOWN_STATE = "no answer", "unknown"
RUNNING, REBALANCING, ERROR, NOT_READY, STOPPED = "RUNNING", "REBALANCING", "ERROR", "NOT READY", "NOT RUNNING"
# The states of a streams group (KIP-1071), as the state of its application.
_OF_GROUP: Final = {
    "Stable": RUNNING,
    "Assigning": REBALANCING,
    "Reconciling": REBALANCING,
    "NotReady": NOT_READY,
    "Empty": STOPPED,
    "Dead": STOPPED,
}


@dataclass(frozen=True, slots=True)
class StreamsApplication:
    """An application. `states` are those of the instances that answered, by member; `failed` the reasons of others."""

    name: str
    state: str
    description: GroupDescription
    lags: Mapping[tuple[str, int], tuple[int | None, int | None]] = field(default_factory=dict)
    states: Mapping[str, InstanceState] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)
    # The driver of an application on Spark.
    driver: DriverRecord | None = None

    @property
    def host(self) -> str:
        """spark, embedded, or nothing where no instance reports it: instances may be of Kafka Streams."""
        if self.driver is not None:
            return SPARK
        return next((state.host for state in self.states.values()), "")

    @property
    def batches(self) -> tuple[BatchRow, ...]:
        """The batches of each sub-topology, where the driver answers."""
        return tuple(batch_row(each) for state in self.states.values() for each in state.batches)

    @property
    def topology(self) -> Topology | None:
        return self.description.topology

    @property
    def problems(self) -> tuple[str, ...]:
        """Sentences about instances that do not run, and reasons of the group for which tasks wait."""
        waits = dict.fromkeys(text for state in self.states.values() for text in state.waits)
        errors = [f"{_where(member)}: {self.states[member.member_id].error}" for member in self._reported("error")]
        failed = [f"{endpoint}: {reason}" for endpoint, reason in self.failed.items()]
        driver = self.driver
        if driver is not None and driver.state == FAILED:
            errors.append(f"driver {driver.host}: {driver.error}")
        if driver is not None and driver.runs and driver.endpoint is None:
            failed.append("the driver has no application.server, so its state is not known")
        return (*waits, *errors, *failed)

    def _reported(self, name: str) -> list[GroupMember]:
        members = self.description.members
        return [each for each in members if getattr(self.states.get(each.member_id), name, "")]

    @property
    def lag(self) -> int | None:
        """Records of all inputs that were not processed; None if no input has a known lag."""
        known = [each.lag for each in self.inputs if each.lag is not None]
        return sum(known) if known else None

    @property
    def records_per_s(self) -> float | None:
        return sum(each.records_per_s for each in self.states.values()) if self.states else None

    @property
    def rows(self) -> int | None:
        known = [each.rows for each in self.stores if each.rows is not None]
        return sum(known) if known else None

    @property
    def remaining(self) -> int | None:
        """Records of changelogs that active tasks have to read; None if no instance answers."""
        if not self.states:
            return None
        return sum(task.remaining for task, _ in self._active_states())

    @property
    def count_of_tasks(self) -> int:
        return sum(len(each.streams.tasks.active) for each in self.description.members if each.streams is not None)

    def _active_states(self) -> list[tuple[TaskState, InstanceState]]:
        return [(task, state) for state in self.states.values() for task in state.tasks if task.role == ACTIVE]

    @property
    def instances(self) -> tuple[InstanceRow, ...]:
        return tuple(self._instance(member) for member in self.description.members)

    def _instance(self, member: GroupMember) -> InstanceRow:
        facts, state = member.streams, self.states.get(member.member_id)
        endpoint = None if facts is None else facts.endpoint
        tasks = None if facts is None else facts.tasks
        reason = self.failed.get(endpoint or "", "")
        shown = state.state if state is not None else SILENT if reason else UNKNOWN_STATE
        return InstanceRow(
            member.member_id,
            member.client_host.lstrip("/"),
            endpoint,
            "" if facts is None else facts.process_id,
            shown,
            0 if tasks is None else len(tasks.active),
            0 if tasks is None else len(tasks.standby),
            0 if tasks is None else len(tasks.warmup),
            None if state is None else state.records_per_s,
            None if state is None else state.commits_per_s,
            reason if state is None else state.error or "; ".join(state.waits),
        )

    @property
    def tasks(self) -> tuple[TaskRow, ...]:
        """All tasks in their order, each active one in front of its copies."""
        found = []
        for member in self.description.members:
            if member.streams is None:
                continue
            kinds = (ACTIVE, member.streams.tasks.active), (STANDBY, member.streams.tasks.standby)
            for role, tasks in (*kinds, (WARMUP, member.streams.tasks.warmup)):
                found += [self._task(task, role, member) for task in tasks]
        order = (ACTIVE, STANDBY, WARMUP)
        return tuple(sorted(found, key=lambda row: (*_number_of(row.task), order.index(row.role), row.where)))

    def _task(self, task: Task, role: str, member: GroupMember) -> TaskRow:
        state = self.states.get(member.member_id)
        known = next((each for each in state.tasks if each.task == str(task)), None) if state is not None else None
        inputs = [each.lag for each in self.inputs if each.task == str(task) and each.lag is not None]
        lag = sum(inputs) if inputs and role == ACTIVE else None
        if known is None:
            return TaskRow(str(task), role, _where(member), UNKNOWN_STATE, lag, *([None] * 7))
        rows = [store.rows for store in known.stores if store.rows is not None]
        return TaskRow(
            str(task),
            role,
            _where(member),
            known.state,
            lag,
            known.records_per_s if role == ACTIVE else None,
            sum(rows) if rows else None,
            known.state_bytes,
            known.restored,
            known.remaining,
            known.dropped if role == ACTIVE else None,
            known.stream_time_ms,
        )

    @property
    def inputs(self) -> tuple[InputRow, ...]:
        if self.topology is None:
            return ()
        of_topic = {
            topic: part.subtopology_id
            for part in self.topology.subtopologies
            for topic in (*part.source_topics, *(each.name for each in part.repartition_sources))
        }
        # Behind the last record is the marker of its transaction, which no commit counts: an instance knows better.
        known = {
            (each.topic, each.partition): each.lag
            for task, _ in self._active_states()
            for each in task.inputs
            if each.lag is not None
        }
        return tuple(
            InputRow(
                topic,
                partition,
                f"{of_topic[topic]}_{partition}",
                committed,
                end,
                known.get((topic, partition), _lag(committed, end)),
            )
            for (topic, partition), (committed, end) in sorted(self.lags.items())
            if topic in of_topic
        )

    @property
    def stores(self) -> tuple[StoreRow, ...]:
        """Without instances that answer, those are known that have changelogs, by the names of these."""
        found: dict[str, tuple[str, str, list[int | None], int, int]] = {}
        for part in () if self.topology is None else self.topology.subtopologies:
            for each in part.changelogs:
                found[_store_of(self.name, each.name)] = (part.subtopology_id, "", [], 0, 0)
        for task, _ in self._active_states():
            for store in task.stores:
                part_id, _, rows, restored, remaining = found.get(store.name, (task.task.split("_")[0], "", [], 0, 0))
                waits = task.state != "running"
                found[store.name] = (
                    part_id,
                    store.kind,
                    [*rows, store.rows],
                    restored + (task.restored if waits else 0),
                    remaining + (task.remaining if waits else 0),
                )
        return tuple(
            StoreRow(
                name,
                part_id,
                kind or None,
                len(rows) or None,
                sum(known) if (known := [each for each in rows if each is not None]) else None,
                restored / (restored + remaining) if remaining else None,
            )
            for name, (part_id, kind, rows, restored, remaining) in sorted(found.items())
        )


def _where(member: GroupMember) -> str:
    endpoint = None if member.streams is None else member.streams.endpoint
    return endpoint or f"{member.client_host.lstrip('/')} {member.member_id[:8]}"


def _lag(committed: int | None, end: int | None) -> int | None:
    return None if committed is None or end is None else max(0, end - committed)


def _number_of(task: str) -> tuple[int, int]:
    part, _, number = task.partition("_")
    return int(part) if part.isdecimal() else -1, int(number) if number.isdecimal() else -1


def _store_of(application: str, changelog: str) -> str:
    return changelog.removeprefix(f"{application}-").removesuffix("-changelog")


def state_of(description: GroupDescription, states: Iterable[InstanceState]) -> str:
    """The state of an application: the worst one of its instances, or that of its group."""
    reported = {each.state for each in states}
    of_group = _OF_GROUP.get(description.state, description.state)
    if of_group == STOPPED:
        return STOPPED
    for state in (ERROR, REBALANCING):
        if state in reported:
            return state
    return of_group


def state_on_spark(driver: DriverRecord, states: Iterable[InstanceState]) -> str:
    """The state of an application on Spark: what its driver reports, or what it said last."""
    reported = next((each.state for each in states), None)
    if not driver.runs:
        return ERROR if driver.state == FAILED else STOPPED
    if reported is None:
        return UNKNOWN_STATE if driver.endpoint is None else SILENT
    return reported


def to_json(of: StreamsApplication) -> dict[str, Any]:
    """All that is known, as values for JSON."""
    return {
        "application": of.name,
        "state": of.state,
        "host": of.host,
        "group_state": of.description.state,
        "group_epoch": of.description.group_epoch,
        "lag": of.lag,
        "records_per_s": of.records_per_s,
        "restore_remaining": of.remaining,
        "problems": list(of.problems),
        "instances": [each._asdict() for each in of.instances],
        "tasks": [each._asdict() for each in of.tasks],
        "inputs": [each._asdict() for each in of.inputs],
        "stores": [each._asdict() for each in of.stores],
        "batches": [each._asdict() for each in of.batches],
        "reports": {member: asdict(state) for member, state in of.states.items()},
    }


async def application_names(client: AdminClient) -> list[str]:
    """The streams groups of a cluster, and the applications on Spark. Raises ClientError."""
    groups, on_spark = await asyncio.gather(_streams_groups(client), drivers(client))
    return sorted({*groups, *on_spark})


async def _streams_groups(client: AdminClient) -> list[str]:
    try:
        found = await client.groups.listed(types=[STREAMS])
    except ClientError as error:
        if error.failure is Failure.UNSUPPORTED:
            # Brokers that do not know types of groups have none of this type.
            return []
        raise
    return [each.group_id for each in found if each.group_type == STREAMS]


async def read_application(client: AdminClient, name: str) -> StreamsApplication:
    """Raises ClientError: the cluster does not answer, or has no such application."""
    found = await read_applications(client, [name])
    if not found:
        raise ClientError(Failure.INVALID, "the group is no application of stream processing", what=name)
    return found[0]


async def list_applications(client: AdminClient) -> list[StreamsApplication]:
    """All applications, at most APPLICATIONS_MAX. Raises ClientError."""
    return await read_applications(client, (await application_names(client))[:APPLICATIONS_MAX])


async def read_applications(client: AdminClient, names: Sequence[str]) -> list[StreamsApplication]:
    """Raises ClientError. Groups of other types are left out, unless a driver on Spark has announced them."""
    if not names:
        return []
    described, lags, on_spark = await asyncio.gather(
        client.groups.describe(names), client.lag.of(names, isolation=Isolation.READ_COMMITTED), drivers(client)
    )
    if len(names) == 1 and names[0] not in on_spark:
        described.whole()
    found = []
    for name in names:
        group, driver = described.found.get(name), on_spark.get(name)
        is_streams = group is not None and group.group_type == STREAMS
        if driver is not None and _is_on_spark(driver, group):
            found.append(_asked(driver.described(group), lags.found.get(name), driver))
        elif group is not None and is_streams:
            found.append(_asked(group, lags.found.get(name)))
    return list(await asyncio.gather(*found))


def _is_on_spark(driver: DriverRecord, group: GroupDescription | None) -> bool:
    """Whether the driver has the application: an instance on the embedded host that came later is a member. Nothing is
    left of an application that has ended, if its group was deleted.
    """
    if group is None or group.state == "Dead":
        return driver.runs
    return not group.members and (driver.runs or group.group_type != STREAMS)


async def _asked(
    description: GroupDescription, lag: GroupLag | None, driver: DriverRecord | None = None
) -> StreamsApplication:
    endpoints = {
        member.member_id: member.streams.endpoint
        for member in description.members
        if member.streams is not None and member.streams.endpoint is not None
    }
    asked = dict(list(endpoints.items())[:ASKED_MAX])
    answers = await asyncio.gather(*(_ask(endpoint, description.group_id) for endpoint in asked.values()))
    states = {member: each for member, each in zip(asked, answers, strict=True) if isinstance(each, InstanceState)}
    failed = {endpoint: each for endpoint, each in zip(asked.values(), answers, strict=True) if isinstance(each, str)}
    parts = () if lag is None else lag.partitions
    state = state_of(description, states.values()) if driver is None else state_on_spark(driver, states.values())
    return StreamsApplication(
        description.group_id,
        state,
        description,
        {(each.partition.topic, each.partition.partition): (each.committed, each.end) for each in parts},
        states,
        failed,
        driver,
    )


async def _ask(endpoint: str, application: str) -> InstanceState | str:
    """The state of an instance, or the reason why it is not known."""
    try:
        found = await ask(parse_address(endpoint, needs_port=True), ASK_S)
    except ClientError as error:
        return error.reason
    except ValueError as error:
        return str(error)
    if found.application != application:
        return f"the instance is one of application {found.application}"
    return found
