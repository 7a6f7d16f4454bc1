from broker_cy.config import BrokerConfig
from broker_cy.core.errors import ErrorCode
from broker_cy.replica.following import Ask
from broker_cy.replica.partition import Partition
from broker_cy.replica.throttle import ReplicaThrottle

SESSION_ENDED: tuple[ErrorCode, ...]

class Fetched:
    """An answer for one partition, and its request."""

    partition: Partition
    asked: Ask
    error_code: int
    high_watermark: int
    log_start_offset: int
    diverging: tuple[int, int] | None
    records: memoryview | None

class FetchSessionHandler:
    session_id: int
    epoch: int
    share_bytes: int
    in_flight: int
    may_overtake: bool
    is_empty: bool

    def __init__(self, node_id: int, config: BrokerConfig, throttle: ReplicaThrottle) -> None: ...
    def has(self, partition: Partition) -> bool: ...
    def add(self, partition: Partition) -> None: ...
    def pause(self, partition: Partition) -> None: ...
    def remove(self, partition: Partition) -> None: ...
    def note(self, partition: Partition) -> bool: ...
    def restart(self) -> None: ...
    def request(self, broker_epoch: int, now_ms: int) -> bytes | None: ...
    def held_ms(self, now_ms: int) -> int | None: ...
    def take(self, body: memoryview) -> tuple[int, list[Fetched]]: ...
