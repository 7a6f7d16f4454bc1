from collections.abc import Callable, Iterable

from broker_cy.wire.record import Record as Input
from broker_streams.kernel.entry import Entry
from broker_streams.kernel.forward import Due, Moment, Spread
from broker_streams.records import Headers, Record

class RecordQueue:
    """The records of one partition. A `head_input` without a `head` was skipped: only its offset counts."""

    # The largest timestamp so far, or -1.
    partition_time_ms: int
    def __init__(self, topic: str, partition: int, entry: Entry) -> None: ...
    def __len__(self) -> int: ...
    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def node(self) -> str: ...
    @property
    def head(self) -> Record | None: ...
    @property
    def head_input(self) -> Input | None: ...
    @property
    def time_ms(self) -> int:
        """The timestamp of the head, or -1."""
    @property
    def latency(self) -> Spread:
        """The times in ms from the timestamps of records until the task has processed them."""
    @property
    def consumed(self) -> int:
        """The offset of the last record that was processed; -1: none was."""
    def add(
        self, inputs: Iterable[Input | tuple[bytes | None, bytes | None, int, int, Headers]]
    ) -> None:
        """Add records, as they are read or as (key, value, timestamp, offset, headers)."""
    def process(self, moment: Moment) -> None:
        """Process the head. The caller knows that there is one."""
    def run(self, moment: Moment, stream_time: Due, punctuate: Callable[[], object], limit: int) -> int:
        """Process at most `limit` records; return how many. `punctuate` is called when `stream_time` is due."""
    def clear(self) -> None: ...
