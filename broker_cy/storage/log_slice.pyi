from collections.abc import Callable

from broker_cy.storage.log import Log
from broker_cy.storage.segment import Segment

class LogSlice:
    fd: int
    position: int
    size: int
    segment: Segment
    first_offset: int
    is_stale: bool
    def read(self) -> bytes: ...

class LogTotals:
    unflushed_bytes: int
    due_bytes: int
    on_due: Callable[[], None] | None
    on_damage: Callable[[str], None] | None
    dirty: set[Log]
