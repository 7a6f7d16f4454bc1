from collections.abc import Mapping

from broker_cy.metrics.histogram import Histogram
from broker_cy.replica.flush_group import FlushGroup
from broker_cy.replica.partition import Partition
from broker_cy.storage.jobs import Jobs

class GroupCommit:
    """Rounds of fdatasync that the partitions of a data directory with flush.messages share, each in up to `threads`
    jobs of that directory.
    """

    round_times: Histogram
    @property
    def rounds(self) -> int: ...
    @property
    def syncs(self) -> int: ...
    def __init__(self, group: FlushGroup, jobs: Mapping[str, Jobs], threads: int) -> None: ...
    def moved(self, partition: Partition, root: str) -> None: ...
    def start(self) -> None: ...
