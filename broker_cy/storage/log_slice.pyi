from broker_cy.storage.segment import Segment

class LogSlice:
    fd: int
    position: int
    size: int
    segment: Segment
    first_offset: int
    def read(self) -> bytes: ...

class LogTotals:
    unflushed_bytes: int
