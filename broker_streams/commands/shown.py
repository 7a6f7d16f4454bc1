"""The tables of `broker-streams status`: the columns are those of the consoles."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, TypeVar

from broker_cy.admin.streams_applications import StreamsApplication
from broker_cy.admin.streams_rows import BatchRow, InputRow, InstanceRow, StoreRow, TaskRow
from broker_cy.console.columns import streams
from broker_cy.reporting.column import Column
from broker_cy.reporting.foreign_text import clean
from broker_cy.reporting.terminal import print_rows

R = TypeVar("R")
_APPLICATIONS: Final[tuple[Column[StreamsApplication], ...]] = (
    streams.APPLICATION,
    streams.STATE,
    streams.INSTANCES,
    streams.TASKS,
    streams.LAG,
    streams.RECORDS,
    streams.ROWS,
    streams.REMAINING,
    streams.PROBLEMS,
)
_INSTANCES: Final[tuple[Column[InstanceRow], ...]] = (
    streams.ENDPOINT,
    streams.HOST,
    streams.MEMBER,
    streams.INSTANCE_STATE,
    streams.ACTIVE,
    streams.STANDBY,
    streams.WARMUP,
    streams.INSTANCE_RECORDS,
    streams.COMMITS,
)
_TASKS: Final[tuple[Column[TaskRow], ...]] = (
    streams.TASK,
    streams.ROLE,
    streams.WHERE,
    streams.TASK_STATE,
    streams.TASK_LAG,
    streams.TASK_RECORDS,
    streams.TASK_ROWS,
    streams.STATE_BYTES,
    streams.RESTORED,
    streams.TO_RESTORE,
    streams.DROPPED,
    streams.STREAM_TIME,
)
_INPUTS: Final[tuple[Column[InputRow], ...]] = (
    streams.TOPIC,
    streams.PARTITION,
    streams.INPUT_TASK,
    streams.COMMITTED,
    streams.END,
    streams.INPUT_LAG,
)
_STORES: Final[tuple[Column[StoreRow], ...]] = (
    streams.STORE,
    streams.SUBTOPOLOGY,
    streams.STORE_KIND,
    streams.STORE_PARTITIONS,
    streams.STORE_ROWS,
    streams.STORE_RESTORED,
)
_BATCHES: Final[tuple[Column[BatchRow], ...]] = (
    streams.BATCH_PART,
    streams.BATCH_NUMBER,
    streams.BATCH_TIME,
    streams.BATCHES,
    streams.BATCH_RECORDS,
    streams.TRIGGER_LAG,
    streams.BATCH_MS,
    streams.BATCH_MAX_MS,
    streams.PLAN_MS,
    streams.TASKS_MS,
    streams.READ_MS,
    streams.PROCESS_MS,
    streams.WRITE_MS,
    streams.DECIDE_MS,
    streams.COMMIT_MS,
    streams.RUNS,
)


def print_applications(found: Iterable[StreamsApplication]) -> None:
    print_rows(_APPLICATIONS, found)


def print_application(found: StreamsApplication) -> None:
    """Print the instances, tasks, inputs, stores and batches on Spark, and what is wrong."""
    print_rows(_APPLICATIONS, [found])
    _print("Instances", _INSTANCES, found.instances)
    _print("Tasks", _TASKS, found.tasks)
    _print("Inputs", _INPUTS, found.inputs)
    _print("Stores", _STORES, found.stores)
    _print("Batches", _BATCHES, found.batches)
    if found.problems:
        print()
    for text in found.problems:
        print(f"problem: {clean(text)}")


def _print(title: str, columns: Sequence[Column[R]], rows: Sequence[R]) -> None:
    if rows:
        print(f"\n{title}")
        print_rows(columns, rows)
