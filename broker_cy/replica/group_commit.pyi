from broker_cy.metrics.histogram import Histogram
from broker_cy.replica.flush_group import FlushGroup
from broker_cy.storage.jobs import Jobs

class GroupCommit:
    """Rounds of fdatasync that partitions with flush.messages share, each in up to `threads` jobs."""

    rounds: int
    syncs: int
    round_times: Histogram
    def __init__(self, group: FlushGroup, jobs: Jobs, threads: int) -> None: ...
    def start(self) -> None: ...
