"""Columns of groups, of their members, and of their lag."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final, Protocol

from broker_cy.admin.group_values import GroupListing, GroupMember, StreamsFacts, Subtopology
from broker_cy.admin.lag import Status, Trend
from broker_cy.console.feed_values import GroupSummary
from broker_cy.console.members import (
    AWAY_EPOCH,
    MemberRow,
    TaskRow,
    difference_text,
    holder_name,
    parts_text,
    process_of,
)
from broker_cy.console.rows import STATUS_TONES, TREND_LEAST_PER_S, LagRow, assignment_text, catch_up_text
from broker_cy.reporting.column import Column, Kind
from broker_cy.reporting.numbers import UNKNOWN, count, duration, short
from broker_cy.reporting.tone import Tone

# Order of the states: groups whose members wait for an assignment are first, groups without members are last.
_STATE_RANKS: Final[Mapping[str, int]] = {"Stable": 1, "Empty": 2, "Dead": 3}


class Lagging(Protocol):
    """A group, or one of its partitions, with its lag."""

    @property
    def lag(self) -> int | None: ...

    @property
    def trend(self) -> Trend | None: ...

    @property
    def status(self) -> Status: ...


def state_rank(state: str) -> int:
    """Return the order of a state."""
    return _STATE_RANKS.get(state, 0)


def trend_text(trend: Trend | None) -> str:
    """Return the growth of the lag per second."""
    if trend is None:
        return UNKNOWN
    grows = trend.lag_per_s
    return "= 0/s" if abs(grows) < TREND_LEAST_PER_S else f"{'▲' if grows > 0 else '▼'} {short(abs(grows))}/s"


def trend_tone(trend: Trend | None) -> Tone:
    if trend is None or abs(trend.lag_per_s) < TREND_LEAST_PER_S:
        return Tone.MUTED
    return Tone.WARN if trend.lag_per_s > 0 else Tone.GOOD


def lag_text(lag: int | None, *, is_complete: bool) -> str:
    """Return a lag; a lower bound if the lag of some partitions is unknown, and no number if that of all is."""
    return UNKNOWN if lag is None else count(lag) if is_complete else f"≥ {count(lag)}"


def _summary_time(row: GroupSummary) -> str:
    if row.time_ms is None or not row.lag:
        return UNKNOWN
    return f"{'=' if row.is_time_complete else '≥'} {duration(row.time_ms)}"


def _partition_time(row: LagRow) -> str:
    if row.part.lag == 0 or row.time_ms is None:
        return UNKNOWN
    return f"{'=' if row.is_exact else '~'} {duration(row.time_ms)}"


def _end(row: LagRow) -> str:
    if row.part.end is not None or row.part.problem is None:
        return count(row.part.end)
    return row.part.problem.reason


def _end_tone(row: LagRow) -> Tone:
    return Tone.BAD if row.part.end is None and row.part.problem is not None else Tone.PLAIN


def _target(row: GroupMember) -> str:
    if row.target is None or set(row.target) == set(row.assignment):
        return UNKNOWN
    return assignment_text(sorted(row.target)) or "none"


def _is_other(row: GroupListing) -> bool:
    return bool(row.group_type) and row.protocol_type not in ("", "consumer", row.group_type)


def _epoch(row: GroupMember) -> str:
    return {AWAY_EPOCH: "away", -1: UNKNOWN}.get(row.member_epoch) or str(row.member_epoch)


def _subscription(row: GroupMember) -> str:
    regex = (f"/{row.subscribed_regex}/",) if row.subscribed_regex else ()
    return ", ".join((*row.subscribed, *regex))


def _names(members: Iterable[GroupMember | None]) -> str:
    return ", ".join(filter(None, map(holder_name, members)))


GROUP: Final = Column[GroupListing]("group", "Group", lambda row: row.group_id, width=18)
STATE: Final = Column[GroupListing](
    "state",
    "State",
    lambda row: row.state,
    sort=lambda row: (state_rank(row.state), row.state),
    width=12,
)
TYPE: Final = Column[GroupListing]("type", "Type", lambda row: row.group_type or None, width=8)
PROTOCOL: Final = Column[GroupListing]("protocol", "Protocol", lambda row: row.protocol_type or None)
# Both in one column, for narrow tables: the protocol is shown if the type does not imply it, as for groups of Connect.
KIND: Final = replace(
    TYPE,
    text=lambda row: row.protocol_type if _is_other(row) else row.group_type or UNKNOWN,
    hint="Type of the group; the protocol type of a classic group that is not of consumers",
)
COORDINATOR: Final = Column[int](
    "coordinator", "Coordinator", lambda row: row, Kind.NUMBER, sorts=False, hint="Broker id", width=11
)
MEMBERS: Final = Column[int]("members", "Members", lambda row: row, Kind.COUNT, sorts=False, width=7)

PARTITIONS: Final = Column[GroupSummary](
    "partitions",
    "Partitions",
    lambda row: row.partitions,
    Kind.COUNT,
    hint="Partitions for which the group has committed an offset",
)
LAG: Final = Column[GroupSummary](
    "lag",
    "Lag",
    lambda row: row.lag,
    Kind.COUNT,
    text=lambda row: lag_text(row.lag, is_complete=row.is_complete),
    hint="Offsets that the group has not read",
    width=12,
)
TIME_LAG: Final = Column[GroupSummary](
    "time",
    "Time lag",
    lambda row: row.time_ms,
    Kind.DURATION,
    text=_summary_time,
    hint="Age of the oldest unread record, if the broker's events of commits report it; the page of a "
    "group reads the others from the log",
    width=11,
)
TREND: Final = Column[Lagging](
    "trend",
    "Trend",
    lambda row: row.trend,
    Kind.RATE,
    text=lambda row: trend_text(row.trend),
    tone=lambda row: trend_tone(row.trend),
    sort=lambda row: None if row.trend is None else row.trend.lag_per_s,
    hint="Growth of the lag in records per second",
    width=9,
)
CATCH_UP: Final = Column[Lagging](
    "gone",
    "Catch-up",
    lambda row: catch_up_text(row.trend, row.lag),
    Kind.DURATION,
    text=lambda row: catch_up_text(row.trend, row.lag),
    sorts=False,
    hint="Time until the lag is gone at the present rates",
)
STATUS: Final = Column[Lagging](
    "verdict",
    "Status",
    lambda row: row.status,
    text=lambda row: row.status.name,
    tone=lambda row: STATUS_TONES[row.status],
    width=8,
)
CONSUMED: Final = Column[Trend]("consumed", "Consumed/s", lambda row: row.consumed_per_s, Kind.RATE)
PRODUCED: Final = Column[Trend]("produced", "Produced/s", lambda row: row.produced_per_s, Kind.RATE)

PARTITION: Final = Column[LagRow]("partition", "Partition", lambda row: row.part.partition, width=16)
COMMITTED: Final = Column[LagRow](
    "committed", "Committed", lambda row: row.part.committed, Kind.COUNT, sorts=False, hint="Committed offset", width=13
)
START_OFFSET: Final = replace(
    COMMITTED, title="Start offset", hint="Every record below it was acknowledged or archived by the share group"
)
LOG_END: Final = Column[LagRow](
    "end",
    "Log end",
    lambda row: row.part.end,
    Kind.COUNT,
    text=_end,
    tone=_end_tone,
    sorts=False,
    hint="Log end offset",
    width=13,
)
PARTITION_LAG: Final = Column[LagRow](
    "lag", "Lag", lambda row: row.part.lag, Kind.COUNT, hint="Offsets that the group has not read", width=11
)
PARTITION_TIME_LAG: Final = Column[LagRow](
    "time",
    "Time lag",
    lambda row: row.time_ms,
    Kind.DURATION,
    text=_partition_time,
    hint="Age of the first unread record. =: from the event of the commit. ~: read from the log",
    width=11,
)
TIME_SOURCE: Final = Column[LagRow](
    "source", "Source", lambda row: "event" if row.is_exact else "record", hint="Source of the time lag", width=6
)
OWNER: Final = Column[LagRow]("owner", "Owner", lambda row: row.owner, hint="Client id of the member", width=14)
LAST_COMMIT: Final = Column[LagRow](
    "commit",
    "Last commit",
    lambda row: row.part.commit_ms,
    Kind.TIME,
    hint="Unknown until broker-cy's event of the commit was read; Kafka writes none",
    width=23,
)

CLIENT_ID: Final = Column[GroupMember]("client", "Client id", lambda row: row.client_id, width=14)
INSTANCE_ID: Final = Column[GroupMember]("instance", "Instance id", lambda row: row.instance_id or None, width=11)
HOST: Final = Column[GroupMember]("host", "Host", lambda row: row.client_host.lstrip("/"), width=15)
RACK: Final = Column[GroupMember]("rack", "Rack", lambda row: row.rack or None, width=8)
MEMBER_PROTOCOL: Final = Column[GroupMember](
    "protocol",
    "Protocol",
    lambda row: row.protocol or None,
    hint="A consumer group with members of the classic protocol is being converted",
    width=8,
)
MEMBER_EPOCH: Final = Column[GroupMember](
    "epoch",
    "Epoch",
    lambda row: row.member_epoch if row.member_epoch != -1 else None,
    Kind.NUMBER,
    text=_epoch,
    hint="Epoch of the member: its assignment is the one of this epoch of the group",
    width=6,
)
SUBSCRIPTION: Final = Column[GroupMember](
    "subscription",
    "Subscription",
    lambda row: _subscription(row) or None,
    hint="Topics, or a regular expression between slashes",
    width=16,
)
MEMBER_PARTITIONS: Final = Column[GroupMember]("partitions", "Partitions", lambda row: len(row.assignment), Kind.COUNT)
ASSIGNED: Final = Column[GroupMember](
    "assigned", "Assigned", lambda row: assignment_text(row.assignment) or None, sorts=False, width=16
)
TO_BE_ASSIGNED: Final = Column[GroupMember](
    "target",
    "To be assigned",
    _target,
    sorts=False,
    hint="For KIP-848 groups: the target assignment, if it differs from the present one",
    width=16,
)
DIFFERENCE: Final = Column[MemberRow](
    "difference",
    "Planned changes",
    lambda row: difference_text(row) or None,
    tone=lambda row: Tone.MUTED if row.is_settled else Tone.WARN,
    sorts=False,
    hint="The steps from the current to the planned assignment, and the members that have to release first",
    width=34,
)
MEMBER_ID: Final = Column[GroupMember]("member", "Member id", lambda row: row.member_id, width=20)

PROCESS: Final = Column[GroupMember](
    "process",
    "Process",
    lambda row: row.streams and row.streams.process_id,
    hint="Members of one process share its memory and disk",
    width=12,
)
ENDPOINT: Final = Column[StreamsFacts](
    "endpoint", "Endpoint", lambda row: row.endpoint, hint="Address for interactive queries", width=16
)
TOPOLOGY_EPOCH: Final = Column[StreamsFacts](
    "topology", "Topology", lambda row: row.topology_epoch, Kind.NUMBER, hint="Epoch of the member's topology", width=8
)
ACTIVE_TASKS: Final = Column[StreamsFacts](
    "active", "Active tasks", lambda row: parts_text(row.tasks.active) or None, sorts=False, width=16
)
STANDBY_TASKS: Final = Column[StreamsFacts](
    "standby", "Standby tasks", lambda row: parts_text(row.tasks.standby) or None, sorts=False, width=14
)
WARMUP_TASKS: Final = Column[StreamsFacts](
    "warmup", "Warm-up tasks", lambda row: parts_text(row.tasks.warmup) or None, sorts=False, width=14
)

TASK: Final = Column[TaskRow]("task", "Task", lambda row: str(row.task), sort=lambda row: row.task, width=8)
TASK_STATE: Final = Column[TaskRow](
    "state", "State", lambda row: "stateful" if row.is_stateful else "stateless", width=9
)
TASK_OWNER: Final = Column[TaskRow]("owner", "Active on", lambda row: _names([row.owner]) or None, width=16)
TASK_PLANNED: Final = Column[TaskRow](
    "planned",
    "Planned on",
    lambda row: None if row.planned is row.owner else _names([row.planned]) or "none",
    tone=lambda row: Tone.MUTED if row.planned is row.owner else Tone.WARN,
    hint="The member that is to have the task, if it is another one",
    width=16,
)
TASK_STANDBYS: Final = Column[TaskRow](
    "standbys",
    "Standby on",
    lambda row: _names(row.standbys) or None,
    tone=lambda row: Tone.WARN if row.planned_standbys and not row.is_covered else Tone.PLAIN,
    sorts=False,
    width=16,
)
TASK_PLANNED_STANDBYS: Final = Column[TaskRow](
    "planned_standbys",
    "Standby planned on",
    lambda row: None if row.has_planned_standbys else _names(row.planned_standbys) or "none",
    sorts=False,
    hint="The members that are to have standby copies, if they are others",
    width=18,
)
TASK_PROCESS: Final = Column[TaskRow](
    "process", "Process", lambda row: process_of(row.owner), hint="Process that has the task active", width=12
)
TASK_HOST: Final = Column[TaskRow](
    "host", "Host", lambda row: None if row.owner is None else row.owner.client_host.lstrip("/"), width=15
)

SUBTOPOLOGY: Final = Column[Subtopology]("subtopology", "Subtopology", lambda row: row.subtopology_id, width=11)
SOURCE_TOPICS: Final = Column[Subtopology](
    "sources",
    "Source topics",
    lambda row: ", ".join((*row.source_topics, *(each.name for each in row.repartition_sources))) or None,
    sorts=False,
    width=20,
)
SINK_TOPICS: Final = Column[Subtopology](
    "sinks", "Repartition topics written", lambda row: ", ".join(row.repartition_sinks) or None, sorts=False, width=20
)
CHANGELOGS: Final = Column[Subtopology](
    "changelogs", "Changelog topics", lambda row: ", ".join(each.name for each in row.changelogs) or None, sorts=False
)
