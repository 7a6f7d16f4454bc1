"""The rows of tables about a stream processing application (streams_applications)."""

from __future__ import annotations

from broker_cy.client.streams_status import BatchState
from broker_cy.core.classes import NamedTuple


class InstanceRow(NamedTuple):
    """A member of the group. `state` is that which the instance reports, or why it reports none."""

    member: str
    host: str
    endpoint: str | None
    process: str
    state: str
    active: int
    standby: int
    warmup: int
    records_per_s: float | None
    commits_per_s: float | None
    problem: str


class TaskRow(NamedTuple):
    """A task at a member, or at none (`where` is empty). None: not known."""

    task: str
    role: str
    where: str
    state: str
    lag: int | None
    records_per_s: float | None
    rows: int | None
    state_bytes: int | None
    restored: int | None
    remaining: int | None
    dropped: int | None
    stream_time_ms: int | None


class InputRow(NamedTuple):
    """A partition that the application reads. `committed` None: nothing was committed yet."""

    topic: str
    partition: int
    task: str
    committed: int | None
    end: int | None
    lag: int | None


class BatchRow(NamedTuple):
    """The batches of a sub-topology on Spark. Times in ms and rates are those of the last 10 s; None: there was none.
    `tasks_ms` is the time of Spark's tasks, and `process_ms` that of the kernel in the longest one.
    """

    subtopology: str
    number: int | None
    begin_ms: int | None
    runs: int
    batches_per_s: float
    records_per_s: float
    batch_ms: float | None
    batch_max_ms: float | None
    plan_ms: float | None
    tasks_ms: float | None
    read_ms: float | None
    process_ms: float | None
    write_ms: float | None
    decide_ms: float | None
    commit_ms: float | None
    trigger_lag_ms: float | None


class StoreRow(NamedTuple):
    """A store over all of its active parts that are known. `restored` is the part of records that restoring has read,
    from 0 to 1; None: nothing is being restored. `kind` and `partitions` are None if no instance reports them.
    """

    store: str
    subtopology: str
    kind: str | None
    partitions: int | None
    rows: int | None
    restored: float | None


def batch_row(of: BatchState) -> BatchRow:
    part = of.parts_ms.get
    return BatchRow(
        of.subtopology,
        of.last_number,
        of.last_begin_ms,
        of.runs,
        of.batches_per_s,
        of.records_per_s,
        of.batch_ms,
        of.batch_max_ms,
        part("plan"),
        part("tasks"),
        part("read"),
        part("process"),
        part("write"),
        part("decide"),
        part("commit"),
        of.trigger_lag_ms,
    )
