from typing import Any

from broker_cy.wire.records import Record
from broker_streams.kernel.collector import ChangelogRecord
from broker_streams.kernel.errors import Output

class Results:
    """Records for topics and changelogs, in their order within each partition. Its length is their number."""

    @property
    def size_bytes(self) -> int: ...
    def add(self, outputs: list[Output], origin: Any = None) -> None:
        """Add results. `origin` is what `origin_of` returns for them."""
    def add_changes(self, changes: list[ChangelogRecord], partition: int, origin: Any = None) -> None:
        """Add changes of the stores of a task, with its partition."""
    def origin_of(self, topic: str, partition: int | None, index: int) -> Any:
        """The origin of a record, counted from 0 in its topic and partition."""
    def uncount(self, topic: str, partition: int | None, records: int, size_bytes: int) -> None:
        """Leave records that were not written out of `traffic`."""
    def __len__(self) -> int: ...
    def batches(self) -> dict[tuple[str, int | None], list[list[Record]]]:
        """The batches of each topic and partition, none larger than the producer's; a partition of None is chosen by
        keys.
        """
    def traffic(self) -> dict[str, tuple[int, int]]:
        """Records and bytes for each topic."""
