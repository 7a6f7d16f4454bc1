"""Columns of stream processing applications, and of their instances, tasks, inputs and stores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from broker_cy.admin.streams_applications import ERROR, NOT_READY, REBALANCING, RUNNING, SILENT, StreamsApplication
from broker_cy.admin.streams_rows import BatchRow, InputRow, InstanceRow, StoreRow, TaskRow
from broker_cy.reporting.column import Column, Kind
from broker_cy.reporting.numbers import UNKNOWN, share
from broker_cy.reporting.tone import Tone

_TONES: Final = {
    RUNNING: Tone.GOOD,
    REBALANCING: Tone.NOTED,
    ERROR: Tone.BAD,
    "PENDING_ERROR": Tone.BAD,
    NOT_READY: Tone.BAD,
    SILENT: Tone.WARN,
    "restoring": Tone.NOTED,
}


def tone_of(state: str) -> Tone:
    """The tone of a state of an application, an instance or a task."""
    return _TONES.get(state, Tone.PLAIN)


APPLICATION: Final = Column[StreamsApplication]("application", "Application", lambda row: row.name, width=20)
STATE: Final = Column[StreamsApplication](
    "state", "State", lambda row: row.state, tone=lambda row: tone_of(row.state), width=11
)
INSTANCES: Final = Column[StreamsApplication](
    "instances", "Instances", lambda row: len(row.description.members), Kind.COUNT, width=9
)
TASKS: Final = Column[StreamsApplication](
    "tasks", "Tasks", lambda row: row.count_of_tasks, Kind.COUNT, hint="Active tasks that members have", width=6
)
LAG: Final = Column[StreamsApplication](
    "lag", "Lag", lambda row: row.lag, Kind.COUNT, hint="Records of the inputs that were not processed"
)
RECORDS: Final = Column[StreamsApplication](
    "records",
    "Records/s",
    lambda row: row.records_per_s,
    Kind.RATE,
    hint="Sum over the instances that report their state",
    width=9,
)
ROWS: Final = Column[StreamsApplication]("rows", "Rows", lambda row: row.rows, Kind.COUNT, hint="Rows of all stores")
REMAINING: Final = Column[StreamsApplication](
    "remaining",
    "To restore",
    lambda row: row.remaining,
    Kind.COUNT,
    hint="Records of changelogs that active tasks have to read",
    tone=lambda row: Tone.NOTED if row.remaining else Tone.PLAIN,
)
PROBLEMS: Final = Column[StreamsApplication](
    "problems",
    "Problems",
    lambda row: len(row.problems),
    Kind.COUNT,
    tone=lambda row: Tone.BAD if row.problems else Tone.PLAIN,
    width=8,
)

MEMBER: Final = Column[InstanceRow]("member", "Member", lambda row: row.member, width=22)
HOST: Final = Column[InstanceRow]("host", "Host", lambda row: row.host, width=15)
ENDPOINT: Final = Column[InstanceRow](
    "endpoint", "Endpoint", lambda row: row.endpoint, hint="application.server", width=20
)
INSTANCE_STATE: Final = Column[InstanceRow](
    "state", "State", lambda row: row.state, tone=lambda row: tone_of(row.state), width=11
)
ACTIVE: Final = Column[InstanceRow]("active", "Active", lambda row: row.active, Kind.COUNT, width=6)
STANDBY: Final = Column[InstanceRow]("standby", "Standby", lambda row: row.standby, Kind.COUNT, width=7)
WARMUP: Final = Column[InstanceRow](
    "warmup", "Warm-up", lambda row: row.warmup, Kind.COUNT, hint="Standbys that become active", width=7
)
INSTANCE_RECORDS: Final = Column[InstanceRow]("records", "Records/s", lambda row: row.records_per_s, Kind.RATE, width=9)
COMMITS: Final = Column[InstanceRow]("commits", "Commits/s", lambda row: row.commits_per_s, Kind.RATE, width=9)
INSTANCE_PROBLEM: Final = Column[InstanceRow](
    "problem",
    "Problem",
    lambda row: row.problem,
    tone=lambda row: Tone.BAD if row.problem else Tone.PLAIN,
    width=30,
)


def _number(task: str) -> tuple[int, int]:
    part, _, number = task.partition("_")
    return int(part) if part.isdecimal() else -1, int(number) if number.isdecimal() else -1


TASK: Final = Column[TaskRow]("task", "Task", lambda row: row.task, sort=lambda row: _number(row.task), width=7)
ROLE: Final = Column[TaskRow]("role", "Role", lambda row: row.role, width=8)
WHERE: Final = Column[TaskRow]("where", "Instance", lambda row: row.where, width=22)
TASK_STATE: Final = Column[TaskRow](
    "state", "State", lambda row: row.state, tone=lambda row: tone_of(row.state), width=10
)
TASK_LAG: Final = Column[TaskRow]("lag", "Lag", lambda row: row.lag, Kind.COUNT)
TASK_RECORDS: Final = Column[TaskRow]("records", "Records/s", lambda row: row.records_per_s, Kind.RATE, width=9)
TASK_ROWS: Final = Column[TaskRow]("rows", "Rows", lambda row: row.rows, Kind.COUNT)
STATE_BYTES: Final = Column[TaskRow](
    "state-size", "Size", lambda row: row.state_bytes, Kind.BYTES, hint="File with the rows of its stores", width=9
)
RESTORED: Final = Column[TaskRow](
    "restored", "Restored", lambda row: row.restored, Kind.COUNT, hint="Records of changelogs that were read"
)
TO_RESTORE: Final = Column[TaskRow](
    "remaining",
    "To restore",
    lambda row: row.remaining,
    Kind.COUNT,
    tone=lambda row: Tone.NOTED if row.remaining else Tone.PLAIN,
)
DROPPED: Final = Column[TaskRow](
    "dropped",
    "Dropped",
    lambda row: row.dropped,
    Kind.COUNT,
    hint="Late records, records without a key, and those that a handler skipped",
    tone=lambda row: Tone.WARN if row.dropped else Tone.PLAIN,
    width=8,
)
STREAM_TIME: Final = Column[TaskRow](
    "stream-time", "Stream time", lambda row: row.stream_time_ms, Kind.TIME, hint="The largest timestamp", width=24
)

TOPIC: Final = Column[InputRow]("topic", "Topic", lambda row: row.topic, width=24)
PARTITION: Final = Column[InputRow](
    "partition",
    "Partition",
    lambda row: row.partition,
    Kind.NUMBER,
    sort=lambda row: (row.topic, row.partition),
    width=9,
)
INPUT_TASK: Final = Column[InputRow]("task", "Task", lambda row: row.task, sort=lambda row: _number(row.task), width=7)
COMMITTED: Final = Column[InputRow]("committed", "Committed", lambda row: row.committed, Kind.COUNT, width=12)
END: Final = Column[InputRow]("end", "End", lambda row: row.end, Kind.COUNT, width=12)
INPUT_LAG: Final = Column[InputRow](
    "lag",
    "Lag",
    lambda row: row.lag,
    Kind.COUNT,
    hint="Records that were not processed. They may be committed later; End counts markers of transactions too",
)

STORE: Final = Column[StoreRow]("store", "Store", lambda row: row.store, width=28)
SUBTOPOLOGY: Final = Column[StoreRow]("subtopology", "Sub-topology", lambda row: row.subtopology, width=12)
STORE_KIND: Final = Column[StoreRow]("kind", "Kind", lambda row: row.kind, width=20)
STORE_PARTITIONS: Final = Column[StoreRow](
    "partitions", "Parts", lambda row: row.partitions, Kind.COUNT, hint="Parts whose instances report them", width=6
)
STORE_ROWS: Final = Column[StoreRow]("rows", "Rows", lambda row: row.rows, Kind.COUNT)


def _restored(row: StoreRow) -> str:
    if row.restored is not None:
        return share(row.restored)
    return UNKNOWN if row.partitions is None else share(1.0)


STORE_RESTORED: Final = Column[StoreRow](
    "restored",
    "Restored",
    lambda row: row.restored,
    text=_restored,
    sort=lambda row: 1.0 if row.restored is None else row.restored,
    hint="The part of the changelogs that was read",
    tone=lambda row: Tone.PLAIN if row.restored is None else Tone.NOTED,
    width=8,
)


def _ms(key: str, title: str, value: Callable[[BatchRow], float | None], hint: str) -> Column[BatchRow]:
    return Column(key, title, value, Kind.DURATION, hint=hint, width=max(8, len(title)))


BATCH_PART: Final = Column[BatchRow]("subtopology", "Sub-topology", lambda row: row.subtopology, width=12)
BATCH_NUMBER: Final = Column[BatchRow](
    "number", "Last", lambda row: row.number, Kind.COUNT, hint="The number of the last batch", width=8
)
BATCH_TIME: Final = Column[BatchRow](
    "time", "Last begin", lambda row: row.begin_ms, Kind.TIME, hint="When the last batch began", width=24
)
BATCHES: Final = Column[BatchRow]("batches", "Batches/s", lambda row: row.batches_per_s, Kind.RATE, width=9)
BATCH_RECORDS: Final = Column[BatchRow]("records", "Records/s", lambda row: row.records_per_s, Kind.RATE, width=9)
TRIGGER_LAG: Final = _ms(
    "trigger-lag",
    "Trigger lag",
    lambda row: row.trigger_lag_ms,
    "The time by which a batch begins too late: after its interval, and after its first records",
)
BATCH_MS: Final = _ms("duration", "Duration", lambda row: row.batch_ms, "The average of a batch over 10 s")
BATCH_MAX_MS: Final = _ms("longest", "Longest", lambda row: row.batch_max_ms, "The longest batch within 10 s")
PLAN_MS: Final = _ms("plan", "Plan", lambda row: row.plan_ms, "Spark plans the batch")
TASKS_MS: Final = _ms(
    "tasks", "Tasks", lambda row: row.tasks_ms, "Spark runs the tasks: the next three, and its own work"
)
READ_MS: Final = _ms("read", "Read", lambda row: row.read_ms, "The longest task reads its records")
PROCESS_MS: Final = _ms("process", "Process", lambda row: row.process_ms, "The longest task processes them")
WRITE_MS: Final = _ms("write", "Write", lambda row: row.write_ms, "The longest task writes its results")
DECIDE_MS: Final = _ms("decide", "Decide", lambda row: row.decide_ms, "The record of the batch is committed")
COMMIT_MS: Final = _ms("commit", "Commit", lambda row: row.commit_ms, "The transactions of the tasks are committed")
RUNS: Final = Column[BatchRow](
    "runs",
    "Runs",
    lambda row: row.runs,
    Kind.COUNT,
    hint="How often the query began: again after each failure",
    tone=lambda row: Tone.WARN if row.runs > 1 else Tone.PLAIN,
    width=6,
)
