from collections.abc import Callable, Iterable, Sequence

from broker_cy.wire import messages
from broker_cy.wire.records import Record

RUNS_MAX: int

class Damaged(Exception):
    """Bytes of the source without a valid batch; the message names topic, partition and offset."""

class Piece:
    """One batch to produce. `first` and `last` are the offsets of its records in the source, `next_offset` that after
    it. `runs` has (offset in the source, index in the batch, count) of records that follow one another.
    """

    @property
    def first(self) -> int: ...
    @property
    def last(self) -> int: ...
    @property
    def next_offset(self) -> int: ...
    @property
    def count(self) -> int: ...
    @property
    def size_bytes(self) -> int: ...
    @property
    def max_timestamp(self) -> int: ...
    @property
    def runs(self) -> tuple[tuple[int, int, int], ...]: ...
    @property
    def encoded_again(self) -> bool:
        """Whether its records were decoded: a producer may not send the fetched batch, or they were changed."""
    def stamped(self, producer_id: int, epoch: int, sequence: int, transactional: bool) -> bytes:
        """The bytes of the batch, as this producer sends them."""
    def is_valid(self) -> bool:
        """Whether the checksum that the source has sent is correct. Batches that are passed on are not checked: a wrong
        checksum stays wrong under another header, so that the target refuses the batch.
        """

def runs_of(offsets: Sequence[int]) -> tuple[tuple[int, int, int], ...]:
    """The runs of a batch whose records have these offsets in the source; at most RUNS_MAX, the first and the last."""

def cut(
    records: bytes,
    start: int,
    aborted: Iterable[messages.FetchResponse.AbortedTransaction] | None,
    where: str,
    bytes_max: int = ...,
    change: Callable[[list[Record]], list[Record]] | None = None,
) -> tuple[list[Piece], int]:
    """The batches to produce of one partition's records in a Fetch answer, and the next offset to fetch.

    `start` is the offset that was fetched; `aborted` has the answer's aborted transactions; `where` names the
    partition. A batch of more than `bytes_max` bytes becomes several. `change` gets the records of each batch, and
    returns those to produce. Raises Damaged.
    """

def produce_parts(
    version: int,
    transactional_id: str | None,
    timeout_ms: int,
    topics: Sequence[tuple[str, bytes, Sequence[tuple[int, Piece, int]]]],
    producer_id: int,
    epoch: int,
    transactional: bool,
) -> list[bytes | memoryview]:
    """The body of a Produce request with acks=all, in a version from 3 on, as parts to send one after the other: the
    payload of a large batch is a part of its own, at its place in the Fetch answer. `topics` has (name, 16 bytes of its
    id, [(partition, piece, base sequence)]).
    """
