from broker_cy.metrics.histogram import Snapshot

PHASE_NAMES: dict[int, str]

class RequestMetrics:
    on: bool
    hot_reads: int
    cold_reads: int
    hot_bytes: int
    cold_bytes: int
    def read(self, key: int) -> tuple[int, int, int]: ...
    def keys(self) -> list[int]: ...
    def phase(self, key: int, phase: int) -> Snapshot | None: ...
    def error_counts(self) -> dict[tuple[int, int], int]: ...
