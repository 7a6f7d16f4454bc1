from collections.abc import Callable, Iterable
from typing import Any

from broker_cy.wire.record import Record as Input
from broker_streams.records import Headers, Record, RecordMetadata

class Spread:
    """Values since the begin: how many, and their total."""

    count: int
    total: int

    def take(self) -> tuple[int, int] | None:
        """The least and the largest value since the last call; None: there was none."""

class Moment:
    """The part of the state of a task that changes with each record."""

    # The host's clock at the last call of the task.
    system_time_ms: int
    # How far each record was behind the stream time, in ms; 0 for one that is not (PartitionGroup of Kafka Streams).
    @property
    def lateness(self) -> Spread: ...

    # -1 before the first record, as in Kafka.
    stream_time_ms: int
    # The timestamp and headers of the record that is passed on now: stores write them to changelogs and caches. They
    # follow the input record, and a record that is forwarded with others, as long as its children run.
    timestamp: int
    headers: Headers
    # The place of the input record that is processed now; None outside one: in a punctuation.
    metadata: RecordMetadata | None
    # The bytes of the input record that is processed now; None outside one.
    input: Input | None

class Due:
    """A time from which on there is something to do."""

    due_ms: int

class Forward:
    """A call with one argument, a Record."""

    def __call__(self, record: Record) -> None: ...

class Node(Forward):
    """A processor whose `take` is in C; for all others it looks like a Processor."""

    @property
    def context(self) -> Any: ...
    def init(self, context: Any) -> None: ...
    def process(self, record: Record) -> None: ...
    def close(self) -> None:
        """Called once after the last record."""

def to_all(calls: Iterable[Callable[[Record], None]]) -> Forward:
    """One call in place of several, which it makes in their order."""

def stamped(moment: Moment, children: Callable[[Record], None]) -> Forward:
    """A call that passes a record on, and shows its timestamp and headers in `moment` meanwhile."""

def measured(call: Callable[[Record], None], moment: Moment, spread: Spread) -> Forward:
    """The call of a node without children; `spread` takes the latencies of its records in ms."""

def guarded(node: str, processor: Any, failures: Any) -> Forward:
    """The call of a processor, whose errors go to `failures.processing(node, record, error)`."""
