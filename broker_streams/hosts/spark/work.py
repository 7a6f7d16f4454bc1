"""The work of one task in one batch, and its result, as they travel between the driver and a worker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from broker_cy.admin.metadata import TopicPartition
from broker_cy.client.transaction import ProducerCore
from broker_streams.hosts.spark.reports import Report

TaskId = tuple[int, int]
"""The numbers of the sub-topology and of the partition."""
Token = tuple[str, int]
"""The run of a query, and a batch of it: names the state of a task after that batch."""
Offsets = dict[TopicPartition, int]


@dataclass(frozen=True)
class Work:
    """`committed` has the next offset of each input by the last commit, `texts` the metadata of these commits, and
    `ends` the offsets up to which to read. `core` is the task's producer, which is ready.
    """

    task: TaskId
    run: str
    batch: int
    # The batch after which the state of the task is the committed one; None: before its first batch in this run.
    base: Token | None
    committed: Offsets
    texts: Mapping[TopicPartition, str]
    ends: Offsets
    # Records beyond `ends`, by input.
    lags: Mapping[TopicPartition, int]
    # Ends of the topics of global tables.
    global_ends: Offsets
    # Numbers of partitions by topic.
    counts: Mapping[str, int]
    core: ProducerCore
    # The clock of the batch, of the last batch in which the task ran, and of the start of the run.
    now_ms: int
    last_ms: int
    began_ms: int

    @property
    def token(self) -> Token:
        return self.run, self.batch


@dataclass(frozen=True)
class Done:
    """The task has written all results in a transaction that is still open, or `failure` says why it cannot go on."""

    task: TaskId
    core: ProducerCore
    offsets: Offsets = field(default_factory=dict)
    texts: Mapping[TopicPartition, str] = field(default_factory=dict)
    records: int = 0
    # Records written, by topic.
    written: Mapping[str, int] = field(default_factory=dict)
    # The time of the next punctuation of the clock, or of the end of a wait for another input; None: there is none.
    due_ms: int | None = None
    is_waiting: bool = False
    failure: str | None = None
    report: Report = field(default_factory=Report)
